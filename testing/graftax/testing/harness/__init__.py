"""What all suites of this package share.

- `compare`: when two arrays are equal, and by how much they differ: one rule for NaN, infinity, scale and dtype.
- `children`: runs cases in child processes.
- `scripts`: runs a script over models in another interpreter.
- `tables`: tables of results in Markdown.
"""
