"""Gradients of single examples of functions that arrived as files of `jax.export`."""
