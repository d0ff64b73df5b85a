"""Expressions of operations.

- `registry`: the table, and what a module of spellings gets to see.
- `elementwise`: operations on each element.
- `shapes`: operations that rearrange elements.
- `reductions`: reductions, running reductions, sorting and windows.
- `products`: matrix products, convolutions and random numbers.
- `indexing`: gathers and scatters.
- `choosing`: takes the first spelling whose own program is the operation.
- `texts`: texts of numbers, shapes, dtypes and settings.
"""

from graftax.convert.source_code.spelling import elementwise, indexing, products, reductions, shapes

__all__ = ["elementwise", "indexing", "products", "reductions", "shapes"]
