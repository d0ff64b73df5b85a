"""Small models of well-known architectures, saved by TensorFlow, loaded without it, and compared.

`python -m graftax.testing.zoo` prints a table with a row for each model. Modules: `models` (the models, one module for
each domain), `layers` (layers with random weights), `catalogue` (all models), `saving` (a model as a SavedModel and
back), `check` (one row of the table) and `report`.
"""
