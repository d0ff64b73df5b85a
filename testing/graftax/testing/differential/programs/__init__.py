"""TensorFlow programs by kind: each module declares some with its `define`."""
