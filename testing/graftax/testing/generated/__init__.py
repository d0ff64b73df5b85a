"""Random single-op cases against TensorFlow: `python -m graftax.testing.generated`.

A case is one op with drawn dtypes, attributes, shapes and values. It is reproduced by its id, `op/structure/values`:
`structure` seeds dtypes, attributes, shapes and static inputs, `values` seeds the other inputs.

Modules: `recipes` (how to draw the inputs of each op), `draw` (random choices), `case`, `run` (one case in both
frameworks), `compare`, `deviations` (known differences, each with its reason), `worker` (child processes), `report`.
"""
