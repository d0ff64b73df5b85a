"""What all suites of this package share.

- `compare`: when two arrays are equal, and by how much they differ: one rule for NaN, infinity, scale and dtype.
- `catalogue`: the cases of a suite by kind.
- `conversion_case`: `ConversionCase`, a TensorFlow program with inputs and checks.
- `children`: runs cases in child processes.
- `errors`: errors as short texts that are the same on every machine.
- `results`: what came of the checks of a suite, and tables of it.
- `scripts`: runs a script over models in another interpreter.
- `tables`: tables of results in Markdown.
"""
