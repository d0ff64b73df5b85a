"""TensorFlow programs by kind: each module declares its programs with a `Collector` named `define`."""
