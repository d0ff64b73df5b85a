"""Prints a block as statements of a function, as trees of Python's syntax with names that are not chosen yet.

- `printer`: prints functions, with the rules of their derivatives.
- `function_writer`: writes one function.
- `control_flow`: statements of loops, branches and other operations with bodies.
- `calls`: statements that call other functions, and that assign parameters.
- `syntax`: parts of Python's syntax, as trees.
- `marks`: placeholders for names.
"""

from graftax.convert.source_code.printing.function_writer import Printed
from graftax.convert.source_code.printing.marks import marked, width
from graftax.convert.source_code.printing.printer import Printer
from graftax.convert.source_code.printing.syntax import expression, indexed

__all__ = ["Printed", "Printer", "expression", "indexed", "marked", "width"]
