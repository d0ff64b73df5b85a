"""SavedModels with XlaCallModule nodes, rewritten for several releases of TensorFlow and run there.

    python -m graftax.testing.rewritten_models FOLDER --make PYTHON --make PYTHON --run PYTHON --run PYTHON

makes, rewrites and runs them, and prints a table.

- `make_models`: Writes the models; runs alone, in an interpreter with TensorFlow and a JAX that has jax2tf.
- `run_models`: Runs models and their gradients; runs alone, in an interpreter with TensorFlow.
"""
