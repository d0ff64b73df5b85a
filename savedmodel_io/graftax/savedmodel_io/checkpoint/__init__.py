"""TensorFlow's checkpoint formats, read with numpy."""
