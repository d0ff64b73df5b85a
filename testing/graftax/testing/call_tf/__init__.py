"""TensorFlow functions called from JAX by `call_tf`, under transformations: `python -m graftax.testing.call_tf`.

The functions are in `tensorflow_programs.functions`. `transformations.py` has each transformation in JAX and what
TensorFlow computes instead, and `check.py` compares one function under one transformation.
"""
