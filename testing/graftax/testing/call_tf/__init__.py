"""TensorFlow functions called from JAX by `call_tf`, under transformations: `python -m graftax.testing.call_tf`.

`functions.py` is the table. `transformations.py` has each transformation in JAX and what TensorFlow computes instead,
`check.py` compares one function under one transformation, and `report.py` prints what came out.
"""
