"""Converts JAX functions to TensorFlow."""
