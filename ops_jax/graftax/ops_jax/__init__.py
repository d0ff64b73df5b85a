"""TensorFlow ops as JAX functions: one registry, one lowering per op, files by domain.

The lowerings are registered when the first one is asked for; `register` adds or replaces one from outside.

Rooms of lowerings, by domain:

- `array`: creation, shapes, slicing, joining, gather and scatter, sorting, casts.
- `math`: elementwise functions, comparisons, reductions, running sums, segments and special functions.
- `linalg`: products, decompositions, solvers and functions of matrices.
- `nn`: convolution, pooling, normalization, activations, losses and recurrent cells.
- `image`: resizing, cropping, colors, geometric transforms and bounding boxes.
- `signal`: Fourier transforms and audio features.
- `random`: stateless ops, which match TensorFlow bit for bit, and stateful ones, which draw from JAX keys.
- `sparse`: sparse and ragged tensors.
- `quantization`: quantized numbers and fake quantization.
- `optimizers`: one step of an optimizer.
- `state`: variables and lookup tables.
- `control_flow`: calls, conditionals, loops and printing.
- `lists`: tensor lists, TensorArrays and optionals.
- `tf2xla`: the Xla* ops of tf2xla, and XlaCallModule.

What they stand on:

- `_core`: the registry, the context of a lowering, known values, and helpers that many lowerings share.
- `binding`: kernels, which bind a lowering to a node.
- `bounded`: arrays whose sizes depend on data, under `jit`.
- `int64_pairs`: 64-bit integers while `jax_enable_x64` is off.
- `spatial`: layouts and windows, which convolutions, pooling and image ops share.
- `variants`: values in control flow that are not arrays.
"""

from graftax.ops_jax._core.context import Context, CountedLoop, Counter, LoopLength, PureFunction, ResourceHandle
from graftax.ops_jax._core.errors import (
  InvalidInputError,
  MissingBoundError,
  MissingOp,
  RegistrationError,
  SizeBoundError,
  StaticInputError,
  UnsupportedAttrError,
  UnsupportedOpError,
)
from graftax.ops_jax._core.integer_facts import IntegerFacts
from graftax.ops_jax._core.known import KNOWN_SIZE_LIMIT, InconclusiveError, canonical_dtype
from graftax.ops_jax._core.options import LoweringOptions
from graftax.ops_jax._core.registry import (
  BoundedRule,
  InputParameter,
  Lowering,
  lowering,
  read_lowering,
  register,
  supported_ops,
)
from graftax.ops_jax._core.result_sizes import NO_BUDGET, argument_bytes, check_results
from graftax.ops_jax._core.static_inputs import static_value
from graftax.ops_jax._core.unsupported_reasons import reason_without_lowering
from graftax.ops_jax._core.values import (
  Array,
  Static,
  StaticSize,
  StaticSizes,
  Value,
  is_known,
  is_symbolic,
  materialize,
  namespace,
  shape_vector,
)
from graftax.ops_jax.binding.kernel import Kernel, bind, context_kernel
from graftax.ops_jax.bounded.rules import BoundedCall, bounded_rule, ops_with_bounded_sizes, ops_with_max_size
from graftax.ops_jax.bounded.values import BoundedArray
from graftax.ops_jax.int64_pairs.pairs import Int64Pair, as_int64_pair, fits_jax_dtype, to_jax_exactly
from graftax.ops_jax.state.lookup_tables import LookupTable

__version__ = "0.1.0"

__all__ = [
  "KNOWN_SIZE_LIMIT",
  "NO_BUDGET",
  "Array",
  "BoundedArray",
  "BoundedCall",
  "BoundedRule",
  "Context",
  "CountedLoop",
  "Counter",
  "InconclusiveError",
  "InputParameter",
  "IntegerFacts",
  "InvalidInputError",
  "Kernel",
  "LookupTable",
  "LoopLength",
  "Lowering",
  "LoweringOptions",
  "MissingBoundError",
  "MissingOp",
  "PureFunction",
  "RegistrationError",
  "SizeBoundError",
  "ResourceHandle",
  "Static",
  "StaticSize",
  "StaticSizes",
  "StaticInputError",
  "UnsupportedAttrError",
  "UnsupportedOpError",
  "Value",
  "Int64Pair",
  "argument_bytes",
  "as_int64_pair",
  "bind",
  "bounded_rule",
  "check_results",
  "context_kernel",
  "fits_jax_dtype",
  "canonical_dtype",
  "is_known",
  "is_symbolic",
  "lowering",
  "materialize",
  "namespace",
  "ops_with_bounded_sizes",
  "ops_with_max_size",
  "read_lowering",
  "reason_without_lowering",
  "register",
  "shape_vector",
  "static_value",
  "supported_ops",
  "to_jax_exactly",
]
