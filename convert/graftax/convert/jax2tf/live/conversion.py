"""`convert`: calls JAX functions from TensorFlow."""

import functools
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax

from graftax.convert._tensorflow import TensorFlow, import_tensorflow, without_autograph
from graftax.convert.jax2tf.large_constants import digests, with_constants_as_inputs
from graftax.convert.jax2tf.live.arguments import ArgumentSpec, argument_key, argument_spec, as_tensor, flatten
from graftax.convert.jax2tf.live.constants import LiveConstant
from graftax.convert.jax2tf.live.function import LiveFunction
from graftax.convert.jax2tf.node_forms import LoweringName, NodeForm, node_form
from graftax.convert.jax2tf.polymorphic_shapes import ShapeSpecs, check_callable, symbolic_specs
from graftax.convert.jax2tf.traced_function import PLATFORMS, trace
from graftax.convert.live.variables import LiveVariable
from graftax.convert.pytrees import Leaf, PyTree
from graftax.convert.trace_state import is_outside_of_transformations, trace_state
from graftax.ops_jax import Int64Pair

__all__ = ["DisabledSafetyCheck", "convert"]

DisabledSafetyCheck = jax.export.DisabledSafetyCheck

_NOT_GIVEN: Any = object()
# Calls are remembered by the shapes of their arguments; a function that sees ever new shapes must not fill the memory.
_MAX_CALLS = 4096
# Options of JAX that change what a function computes; the mesh does, too.
_OPTIONS = (
  "jax_enable_x64",
  "jax_default_matmul_precision",
  "jax_default_prng_impl",
  "jax_threefry_partitionable",
  "jax_numpy_dtype_promotion",
  "jax_numpy_rank_promotion",
)


def convert(
  fun_jax: Callable[..., Any],
  *,
  polymorphic_shapes: ShapeSpecs = None,
  polymorphic_constraints: Sequence[str] = (),
  with_gradient: bool = True,
  enable_xla: Any = _NOT_GIVEN,
  native_serialization: Any = _NOT_GIVEN,
  native_serialization_platforms: Sequence[str] | None = None,
  native_serialization_disabled_checks: Sequence[jax.export.DisabledSafetyCheck] = (),
  gradient_order: int = 2,
  lowering: LoweringName = "stablehlo",
) -> Callable[..., Any]:
  """Returns a JAX function as a function of TensorFlow tensors.

  The result can be called eagerly and inside `tf.function(autograph=False)`, with `jit_compile=True` too, and
  `tf.saved_model.save` saves it. A saved function does not need JAX. TensorFlow is imported by the first call.

  Args:
    fun_jax: a JAX function of pytrees of arrays.
    polymorphic_shapes: names for dimensions that may change. None makes all shapes static. "batch, ..." is a shape in
      which the first dimension has a name and the others are those of the argument; "_" is one such dimension. A
      single text applies to all positional arguments. A sequence has one entry for each of them, and None in it is a
      static shape. A mapping has entries for positional and keyword arguments by name. The entry of a nested argument
      is one text, or text nested in the same way.
    polymorphic_constraints: constraints on the named dimensions, such as "a >= b".
    with_gradient: whether TensorFlow can differentiate the result. The derivative is the one of `jax.vjp`, including
      custom rules. If False, differentiation raises LookupError, also after saving and loading.
    enable_xla: deprecated; has no effect.
    native_serialization: deprecated; has no effect.
    native_serialization_platforms: for which of "cpu", "cuda", "rocm" and "tpu" the function is compiled; None is
      JAX's default backend.
    native_serialization_disabled_checks: safety checks to leave out.
    gradient_order: how many orders of derivatives `tf.saved_model.save` keeps. With 1, the derivative is traced only if
      it is needed, which makes tracing in a `tf.function` faster. Without saving, all orders are available always.
    lowering: "stablehlo" for XlaCallModule nodes, "tf_ops" for plain TensorFlow ops; see `jax_program`.

  Returns:
    A function of tensors, variables, arrays or numbers, nested like the arguments of `fun_jax`. It returns tensors.
    Results of dtype float0 are bool.

  Raises:
    TypeError: `fun_jax` cannot be called. From calls: JAX cannot hold an argument.
    ValueError: `native_serialization_platforms` or `lowering` has other names. From calls: a shape does not fit
      `polymorphic_shapes`, or the call is inside of a JAX transformation.
    UnsupportedPrimitiveError: from calls: operations have no form in plain TensorFlow ops.
    UnsupportedModuleError: from calls: `fun_jax` has side effects, or communicates between devices.

  Differs from TF: gradients of complex values follow TensorFlow's convention, which is the complex conjugate of JAX's.

  Example:
    >>> from graftax.convert import jax2tf
    >>> tf_function = jax2tf.convert(lambda x, *, scale: x * scale, polymorphic_shapes={"x": "batch, _"})
  """
  for name, value in (("native_serialization", native_serialization), ("enable_xla", enable_xla)):
    if value is not _NOT_GIVEN:
      warnings.warn(
        f"The `{name}` parameter is deprecated and will be removed in a future version of JAX.",
        DeprecationWarning,
        stacklevel=2,
      )
  platforms = _checked_platforms(native_serialization_platforms)
  if isinstance(gradient_order, bool) or not isinstance(gradient_order, int) or gradient_order < 1:
    raise ValueError(f"gradient_order={gradient_order!r}; expected a positive integer. See `with_gradient`.")
  check_callable(fun_jax)
  form = node_form(lowering, platforms=platforms, disabled_checks=native_serialization_disabled_checks)
  conversions = _Conversions(fun_jax, polymorphic_shapes, polymorphic_constraints, form)

  # The names of these parameters are those of the inputs of saved signatures: "args_tf_0" and so on.
  @without_autograph
  def converted_fun_tf(*args_tf: PyTree, **kwargs_tf: PyTree) -> PyTree:
    _check_outside_of_transformations()
    tf = import_tensorflow("A function converted by jax2tf.convert")
    function, tensors = conversions.find(tf, args_tf, kwargs_tf)
    results = function.call(tf, tensors, gradient_order if with_gradient else 0)
    return _with_int64(tf, function.traced.out_tree.unflatten(results), function.traced.out_tree)

  return converted_fun_tf


def _with_int64(tf: TensorFlow, results: PyTree, structure: Any) -> PyTree:
  """Returns the results with a tensor of 64-bit integers for each `Int64Pair`, which TensorFlow does not know."""
  if not _has_pairs(structure):
    return results

  def as_int64(value: Any) -> Any:
    return tf.bitcast(tf.stack([value.low, value.high], -1), value.dtype) if isinstance(value, Int64Pair) else value

  return jax.tree.map(as_int64, results, is_leaf=lambda value: isinstance(value, Int64Pair))


@functools.lru_cache(_MAX_CALLS)
def _has_pairs(structure: Any) -> bool:
  node = structure.node_data()
  return node is not None and (node[0] is Int64Pair or any(map(_has_pairs, structure.children())))


class _Conversions:
  """The `LiveFunction`s of one call of `convert`, one for each structure, shapes and dtypes of arguments."""

  def __init__(
    self,
    function: Callable[..., Any],
    polymorphic_shapes: ShapeSpecs,
    constraints: Sequence[str],
    form: NodeForm,
  ):
    self._function = function
    self._polymorphic_shapes = polymorphic_shapes
    self._constraints = constraints
    self._form = form
    self._by_call: dict[Any, tuple[LiveFunction, list[Leaf]]] = {}
    self._by_specs: dict[Any, LiveFunction] = {}
    self._constants: dict[str, LiveConstant] = {}
    self._lock = threading.RLock()

  def find(
    self, tf: TensorFlow, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]
  ) -> tuple[LiveFunction, list[Leaf]]:
    """Returns the function for these arguments, and the arguments as flat tensors."""
    leaves, structure = flatten(tf, args, kwargs)
    key = structure, tuple([argument_key(tf, leaf) for leaf in leaves]), _options()
    found = self._by_call.get(key)
    if found is None:
      specs = [argument_spec(tf, leaf) for leaf in leaves]
      found = self._make(structure, specs), [tf.as_dtype(spec.dtype) for spec in specs]
      if len(self._by_call) >= _MAX_CALLS:
        self._by_call.clear()
        self._by_specs.clear()
        self._constants.clear()
      self._by_call[key] = found
    function, dtypes = found
    tensors = [as_tensor(tf, leaf, dtype) for leaf, dtype in zip(leaves, dtypes, strict=True)]
    traced = function.traced
    held: tuple[LiveVariable | LiveConstant, ...] = (*traced.captured, *function.constants)
    pairs = zip(held, traced.inputs[len(leaves) :], strict=True)
    tensors += [as_tensor(tf, value.tensor(tf), tf.as_dtype(spec.dtype)) for value, spec in pairs]
    return function, tensors

  def _make(self, structure: PyTree, specs: Sequence[ArgumentSpec]) -> LiveFunction:
    args, kwargs = structure.unflatten(specs)
    args, kwargs = symbolic_specs(self._function, args, kwargs, self._polymorphic_shapes, self._constraints)
    symbolic = jax.tree.leaves((args, kwargs))
    for position, (named, spec) in enumerate(zip(symbolic, specs, strict=True)):
      _check_rank(position, named, spec)
    key = structure, tuple((str(spec.shape), spec.dtype) for spec in symbolic), _options()
    with self._lock:
      if key not in self._by_specs:
        traced, values = with_constants_as_inputs(trace(self._function, args, kwargs))
        # Conversions for other shapes have the same constants.
        pairs = zip(digests(values), values, strict=True)
        constants = tuple(self._constants.setdefault(digest, LiveConstant(value)) for digest, value in pairs)
        self._by_specs[key] = LiveFunction(traced, self._form, constants)
      return self._by_specs[key]


def _check_rank(position: int, named: jax.ShapeDtypeStruct, spec: ArgumentSpec) -> None:
  if len(named.shape) != len(spec.shape):
    raise ValueError(
      f"polymorphic_shapes: flat argument {position} has shape {spec.shape}, which does not fit the specification "
      f"{named.shape}; expected {len(spec.shape)} dimensions. Write '...' for those that are not named."
    )


def _options() -> tuple[Any, ...]:
  config = jax.config
  return (*(getattr(config, name) for name in _OPTIONS), config.jax_platforms, jax.sharding.get_abstract_mesh())


def _checked_platforms(platforms: Sequence[str] | None) -> tuple[str, ...] | None:
  if not platforms:
    return None
  if not isinstance(platforms, list | tuple) or not all(platform in PLATFORMS for platform in platforms):
    raise ValueError(
      "native_serialization_platforms must be a sequence containing a subset of {'cpu', 'cuda', 'rocm', 'tpu'}. "
      f"Got: {platforms}"
    )
  return tuple(platforms)


def _check_outside_of_transformations() -> None:
  if not is_outside_of_transformations():
    raise ValueError(f"convert must be used outside all JAX transformations.Trace state: {trace_state()}")
