"""What all suites of this package share.

- `compare`: when two arrays are equal, and by how much they differ: one rule for NaN, infinity, scale and dtype.
"""
