"""JAX functions as Python that imports only jax and numpy. See ARCHITECTURE.md.

- `api`: `to_source`, and what it returns.
- `traced_program`: a function with its arguments as a program.
- `program`: a program as data that the stages rewrite.
- `reading`: reads a jaxpr.
- `callbacks`: refuses calls back to Python.
- `roles`: names values by what a program does with them.
- `derivatives`: traces rules of `jax.custom_jvp` and `jax.custom_vjp` functions.
- `simplifying`: the normal form.
- `contractions`: joins reshapes with products.
- `loops`: leaves out what scans do not need.
- `comparing`: tells whether two blocks are the same program.
- `repeats`: gives equations that repeat scopes.
- `grouping`: makes functions of scopes.
- `folding`: makes one function of equal ones, and loops of calls.
- `variants`: makes one function of those that differ in few settings.
- `shorthand`: calls of a function of the text for long calls that are there often.
- `spelling`: expressions of operations.
- `printing`: statements of functions.
- `outermost`: the outermost function, with its arguments and results.
- `naming`: names of functions, parameters and values.
- `split_source`: the numeric part of a split program, with calls of graftax around it.
- `writing`: the definitions of a module, with names.
- `layout`: lays out a module.
- `errors`: the error of a program that is not source.
"""

from graftax.convert.source_code.api import Source, to_source
from graftax.convert.source_code.errors import SourceError

__all__ = ["Source", "SourceError", "to_source"]
