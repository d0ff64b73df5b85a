"""Functions in pure JAX beyond `jax.lax` that lowerings of StableHLO and of TensorFlow ops share.

Each name is imported when it is first used: some of the modules take long to import, and few graphs need them.
"""

from typing import TYPE_CHECKING, Any

from graftax.xla_call_module import _lazy

if TYPE_CHECKING:
  from graftax.xla_call_module.lax_extras.arrays import is_inexact, replaced
  from graftax.xla_call_module.lax_extras.closure_conversion import Closed, closed
  from graftax.xla_call_module.lax_extras.gather_scatter import gather, gather_old, index_vectors_last, scatter
  from graftax.xla_call_module.lax_extras.linear_calls import linear_call
  from graftax.xla_call_module.lax_extras.monoids import MONOIDS, identity, is_identity, reduce_monoid
  from graftax.xla_call_module.lax_extras.reductions import mapped, reduce_arrays
  from graftax.xla_call_module.lax_extras.symbolic_dims import InconclusiveDimensionOperation, stack_dims
  from graftax.xla_call_module.lax_extras.tangent_rules import call_with_tangents
  from graftax.xla_call_module.lax_extras.while_loops import NUM_SLOTS, while_loop
  from graftax.xla_call_module.lax_extras.windows import (
    MAX_UNROLLED_CELLS,
    Window,
    reduce_window,
    select_and_scatter,
  )

__all__ = [
  "MAX_UNROLLED_CELLS",
  "MONOIDS",
  "NUM_SLOTS",
  "Closed",
  "InconclusiveDimensionOperation",
  "Window",
  "call_with_tangents",
  "closed",
  "gather",
  "gather_old",
  "identity",
  "index_vectors_last",
  "is_identity",
  "is_inexact",
  "linear_call",
  "mapped",
  "reduce_arrays",
  "reduce_monoid",
  "reduce_window",
  "replaced",
  "scatter",
  "select_and_scatter",
  "stack_dims",
  "while_loop",
]

# The quick ones to import are first.
_HOMES = (
    "arrays", "symbolic_dims", "monoids", "reductions", "windows", "gather_scatter", "closure_conversion",
    "linear_calls", "tangent_rules", "while_loops",
)  # fmt: skip


def __getattr__(name: str) -> Any:
  return _lazy.find(name, globals(), _HOMES)


def __dir__() -> list[str]:
  return sorted({*globals(), *__all__})
