"""The JAX functions of the table, one module for each kind; each has a tuple `CASES`."""
