"""Extensions of `jax.lax` in pure JAX, for lowerings of StableHLO and TensorFlow ops.

Each name is imported on first use, because some modules are slow to import and few graphs need them.

- `arrays`: Small helpers for arrays and lists of arrays.
- `closure_conversion`: Turns closed-over values of a function into arguments.
- `column_blocks`: Products of one row with large matrices, for blocks of the matrix's columns.
- `contraction_barriers`: Barriers after matrix products and convolutions, for programs that are compiled for oneDNN.
- `conv_forms`: Forms of convolutions that are faster than XLA's own on a CPU, as a table by shape.
- `convolutions`: `lax.conv_general_dilated` in the form that is the fastest on each platform.
- `depthwise`: Depthwise convolutions as sums of shifted inputs, and their derivatives in forms that are as fast.
- `gather_scatter`: Gather and scatter with HLO's semantics.
- `hoisted_products`: Scans that multiply what they read from a sequence before the loop, for all steps at once.
- `inlined_contractions`: Programs without calls around their contractions, in the forms that oneDNN computes fastest.
- `int64_pairs`: `Int64Pair`, 64-bit integers as two arrays of 32-bit words.
- `linear_calls`: Linear functions with a given transpose.
- `loop_reversal`: Reverse mode of a loop with a fixed number of checkpoints.
- `loop_steps`: The body of a loop on flat arrays, and its derivative.
- `matrices`: Adjoints, products and identities of batches of matrices, and scales for their entries.
- `monoids`: Associative functions with a neutral element, by name; the least and greatest values of dtypes.
- `philox`: The counter-based random generator Philox 4x32-10.
- `pixel_blocks`: Convolutions with strides as dense convolutions of blocks of pixels.
- `promotion`: JAX's options for the promotion of dtypes and ranks, which are for the code of those who set them.
- `reductions`: `lax.reduce` with any function, with derivatives.
- `reflectors`: Householder reflectors: the decompositions and products of LAPACK's `geqrf`, `geqp3` and `ormqr`.
- `scan_equations`: The operands of `scan` equations.
- `shared_branches`: Branches that JAX traces once for all equal operations of a program.
- `symbolic_dims`: Symbolic dimensions of `jax.export` as values.
- `tangent_rules`: Functions with a given derivative.
- `while_loops`: `lax.while_loop` with derivatives in every mode.
- `windows`: Windowed reductions and select-and-scatter with HLO's semantics.
- `zero_tangents`: Elementwise functions whose derivative is 0 in the direction of 0.
"""

from typing import TYPE_CHECKING, Any

from graftax.xla_call_module import _lazy

if TYPE_CHECKING:
  from graftax.xla_call_module.lax_extras.arrays import divided_axes, is_inexact, mulhi, replaced
  from graftax.xla_call_module.lax_extras.closure_conversion import Closed, closed
  from graftax.xla_call_module.lax_extras.column_blocks import with_column_blocks
  from graftax.xla_call_module.lax_extras.contraction_barriers import with_contraction_barriers
  from graftax.xla_call_module.lax_extras.conv_forms import (
    CONV_FORMS,
    CONV_INPUT_GRADIENT_FORMS,
    ConvForm,
    ConvShapes,
    find_conv_form,
    uses_conv_forms,
    xla_convolutions,
  )
  from graftax.xla_call_module.lax_extras.convolutions import conv_general_dilated
  from graftax.xla_call_module.lax_extras.depthwise import accumulation_dtype, depthwise_conv, depthwise_sum
  from graftax.xla_call_module.lax_extras.gather_scatter import gather, gather_old, index_vectors_last, scatter
  from graftax.xla_call_module.lax_extras.hoisted_products import scan_with_products_before
  from graftax.xla_call_module.lax_extras.int64_pairs import Int64Pair, add_halves, join_halves
  from graftax.xla_call_module.lax_extras.linear_calls import linear_call
  from graftax.xla_call_module.lax_extras.matrices import identity_like, safe_scale
  from graftax.xla_call_module.lax_extras.monoids import (
    MONOIDS,
    highest,
    identity,
    is_identity,
    lowest,
    monoid_of_primitive,
    only_primitive,
    reduce_monoid,
    unwrapped,
  )
  from graftax.xla_call_module.lax_extras.philox import (
    Philox,
    philox_bits,
    philox_blocks,
    philox_of_state,
    philox_skip,
    philox_uint32,
  )
  from graftax.xla_call_module.lax_extras.pixel_blocks import CONV_INPUT_GRADIENT_VALUES
  from graftax.xla_call_module.lax_extras.promotion import default_promotion
  from graftax.xla_call_module.lax_extras.reductions import mapped, reduce_arrays
  from graftax.xla_call_module.lax_extras.reflectors import packed_qr, pivoted_qr, times_reflectors
  from graftax.xla_call_module.lax_extras.scan_equations import scan_sizes
  from graftax.xla_call_module.lax_extras.shared_branches import traced_once
  from graftax.xla_call_module.lax_extras.symbolic_dims import InconclusiveDimensionOperation, stack_dims
  from graftax.xla_call_module.lax_extras.tangent_rules import call_with_tangents
  from graftax.xla_call_module.lax_extras.while_loops import NUM_SLOTS, while_loop
  from graftax.xla_call_module.lax_extras.windows import (
    MAX_UNROLLED_CELLS,
    Window,
    reduce_window,
    select_and_scatter,
  )
  from graftax.xla_call_module.lax_extras.zero_tangents import keeping_zero_tangents, keeps_zero_tangents

__all__ = [
  "CONV_FORMS",
  "CONV_INPUT_GRADIENT_FORMS",
  "CONV_INPUT_GRADIENT_VALUES",
  "MAX_UNROLLED_CELLS",
  "MONOIDS",
  "NUM_SLOTS",
  "Closed",
  "ConvForm",
  "ConvShapes",
  "InconclusiveDimensionOperation",
  "Int64Pair",
  "Philox",
  "Window",
  "accumulation_dtype",
  "add_halves",
  "call_with_tangents",
  "closed",
  "conv_general_dilated",
  "default_promotion",
  "depthwise_conv",
  "depthwise_sum",
  "divided_axes",
  "find_conv_form",
  "gather",
  "gather_old",
  "highest",
  "identity",
  "identity_like",
  "index_vectors_last",
  "is_identity",
  "is_inexact",
  "join_halves",
  "keeping_zero_tangents",
  "keeps_zero_tangents",
  "linear_call",
  "lowest",
  "mapped",
  "monoid_of_primitive",
  "mulhi",
  "only_primitive",
  "packed_qr",
  "philox_bits",
  "philox_blocks",
  "philox_of_state",
  "philox_skip",
  "philox_uint32",
  "pivoted_qr",
  "reduce_arrays",
  "reduce_monoid",
  "reduce_window",
  "replaced",
  "safe_scale",
  "scan_sizes",
  "scan_with_products_before",
  "scatter",
  "select_and_scatter",
  "stack_dims",
  "times_reflectors",
  "traced_once",
  "unwrapped",
  "uses_conv_forms",
  "while_loop",
  "with_column_blocks",
  "with_contraction_barriers",
  "xla_convolutions",
]

# The modules that are fast to import come first.
_HOMES = (
    "arrays", "int64_pairs", "promotion", "scan_equations", "symbolic_dims", "shared_branches", "hoisted_products",
    "monoids", "reductions", "windows", "conv_forms", "pixel_blocks", "linear_calls", "depthwise", "convolutions",
    "gather_scatter", "closure_conversion", "tangent_rules", "while_loops", "zero_tangents", "contraction_barriers",
    "column_blocks", "philox", "matrices", "reflectors",
)  # fmt: skip


def __getattr__(name: str) -> Any:
  return _lazy.find(name, globals(), _HOMES)


def __dir__() -> list[str]:
  return sorted({*globals(), *__all__})
