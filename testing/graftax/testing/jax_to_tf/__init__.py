"""JAX functions in TensorFlow, with JAX as the oracle: `python -m graftax.testing.jax_to_tf`.

`functions/` is the table. `routes.py` has the ways in which TensorFlow runs a converted function, `check.py` compares
one function along one route, `worker.py` does so in child processes, and `report.py` prints what came out.
"""
