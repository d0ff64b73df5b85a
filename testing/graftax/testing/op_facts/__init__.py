"""What checks against TensorFlow show about each op: `python -m graftax.testing.op_facts`, or `make op-facts`.

Modules: `evidence` (what one check showed), `recording` (a pytest plugin that writes it for tests of single ops),
`generated` (cases of all dtypes, drawn by the recipes of `graftax.testing.generated`), `transforms` (some of these
under `vmap` and with symbolic shapes), `programs` (whole programs), `table` (all of it, by op).
"""
