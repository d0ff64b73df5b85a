"""Live TensorFlow functions read as a `Program`."""
