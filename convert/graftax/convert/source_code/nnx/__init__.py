"""Programs as modules of flax.nnx.

- `scopes`: which scopes are modules, by the parameters that they read.
- `ordering`: an order of equations that keeps scopes together.
- `state`: variables that a program assigns, and the types of variables.
- `classes`: functions with parameters as classes.
"""

from collections.abc import Sequence

__all__: Sequence[str] = []
