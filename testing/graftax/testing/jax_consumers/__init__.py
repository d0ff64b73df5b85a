"""Converted models for tools that read jaxprs: which primitives they consist of, and what jax2onnx makes of them.

    python -m graftax.testing.jax_consumers FOLDER --keras --jax2onnx PYTHON

saves the models of the zoo, counts the primitives of graftax in the jaxprs of the converted ones, and prints a table.

- `primitives`: Counts the primitives of graftax in a jaxpr.
- `run_jax2onnx`: Converts models with jax2onnx and runs them; runs alone, in an interpreter with jax2onnx.
"""
