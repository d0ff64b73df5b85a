"""Reads live TensorFlow functions as a `Program`."""
