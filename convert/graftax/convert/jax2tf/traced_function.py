"""`TracedFunction`: a JAX function of flat arrays, traced once, from which all parts of a TensorFlow graph are made."""

import dataclasses
import functools
import inspect
import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import PyTreeDef
from jax.typing import DTypeLike

from graftax.convert.errors import ConversionError
from graftax.convert.jax2tf.argument_names import argument_names, result_names
from graftax.convert.jax2tf.short_integers import in_whole_bytes, whole_bytes
from graftax.convert.jax2tf.tf_calls.variable_reads import CapturedVariables
from graftax.convert.live.variables import LiveVariable
from graftax.convert.pytrees import Leaf, PyTree
from graftax.ops_jax import Array

# Importing these packages takes a third of a second, and only functions that are exported need them.
if TYPE_CHECKING:
  from jax.extend.core import ClosedJaxpr

  from graftax.xla_call_module.exporting import CallModule, Target

__all__ = ["PLATFORMS", "TracedFunction", "array_spec", "as_keys", "trace", "trace_flat", "without_extended_dtype"]

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
"""The platforms that a module can be exported for."""


@dataclasses.dataclass(frozen=True, eq=False)
class TracedFunction:
  """A JAX function of flat arrays, and its derivatives.

  Calling it with arrays of the shapes of `inputs` (tracers, if dimensions are symbolic) runs it: flat arrays in, a list
  of flat arrays out.

  Attributes:
    name: the name of the function, for messages and for names in graphs.
    jaxpr: the function.
    inputs: shape and dtype of each flat argument. Dimensions may be symbolic. Random keys are arrays of uint32, and
      64-bit types are those of 32 bits if `jax_enable_x64` was off while tracing.
    outputs: the same for each flat result; float0 is bool.
    input_names: a name for each flat argument, made of the name of the Python argument and the path in it.
    output_names: a name for each flat result.
    in_tree: the structure of `(args, kwargs)` with the flat arguments as leaves.
    out_tree: the structure of the result.
    enable_x64: whether 64-bit types were on.
    captured: the variables of TensorFlow that it reads through `call_tf`. Their values are its last arguments, which
      are not in `in_tree`.
    fixed: positions of inputs that are constants, which have no derivatives.
  """

  name: str
  jaxpr: "ClosedJaxpr"
  inputs: tuple[jax.ShapeDtypeStruct, ...]
  outputs: tuple[jax.ShapeDtypeStruct, ...]
  input_names: tuple[str, ...]
  output_names: tuple[str, ...]
  in_tree: PyTreeDef
  out_tree: PyTreeDef
  enable_x64: bool
  captured: tuple[LiveVariable, ...] = ()
  fixed: frozenset[int] = frozenset()
  _modules: "dict[Any, CallModule]" = dataclasses.field(default_factory=dict, init=False, repr=False)

  def __call__(self, *args: Leaf) -> list[Leaf]:
    from jax.extend.core import jaxpr_as_fun

    results = jaxpr_as_fun(self.jaxpr)(*args)
    # JAX returns constants of the program as numbers of Python.
    return [
      leaf if hasattr(leaf, "dtype") else np.asarray(leaf, spec.dtype)
      for leaf, spec in zip(results, self.outputs, strict=True)
    ]

  @property
  def differentiable_inputs(self) -> tuple[int, ...]:
    """Returns the positions of the arguments that have derivatives: those of real or complex dtype."""
    return tuple(i for i in _inexact(self.inputs) if i not in self.fixed)

  @property
  def differentiable_outputs(self) -> tuple[int, ...]:
    """Returns the positions of the results that have derivatives: those of real or complex dtype."""
    return _inexact(self.outputs)

  def call_module(
    self,
    target: "Target | str | None" = None,
    *,
    platforms: Sequence[str] | None = None,
    disabled_checks: Sequence[jax.export.DisabledSafetyCheck] = (),
  ) -> "CallModule":
    """Returns the function as the attributes of an XlaCallModule node; see `export_call_module`.

    Its arguments and results of integers below 8 bits are int8 or uint8; see `short_integers.py`.
    The result is kept, so a second call with equal arguments takes no time.
    """
    from graftax.xla_call_module.exporting import Target, export_call_module

    target = Target.of(target)
    key = target, None if platforms is None else tuple(platforms), tuple(map(str, disabled_checks))
    if key not in self._modules:
      with jax.enable_x64(self.enable_x64):
        self._modules[key] = export_call_module(
          _named(in_whole_bytes(self, self.inputs), self.name, self.input_names),
          [whole_bytes(spec) for spec in self.inputs],
          target=target,
          platforms=platforms,
          disabled_checks=disabled_checks,
        )
    return self._modules[key]

  def gradient(self) -> "TracedFunction":
    """Returns the function from arguments and cotangents of results to cotangents of arguments.

    Its flat arguments are all arguments of this function, then the cotangents of its `differentiable_outputs`. Its
    results are the cotangents of its `differentiable_inputs`. The derivative is the one of `jax.vjp`, so rules of
    `jax.custom_vjp` and `jax.custom_jvp` are used. Unlike `jax.vjp`, it differentiates loops of unknown length
    (`jax.lax.while_loop`). It is traced by the first call, and kept.

    Cotangents of complex values follow TensorFlow: they are the complex conjugates of those in JAX.
    """
    return self._gradient

  @functools.cached_property
  def _gradient(self) -> "TracedFunction":
    from graftax.xla_call_module.exporting import reversible

    inputs, outputs = self.differentiable_inputs, self.differentiable_outputs
    num_inputs = len(self.inputs)
    function = reversible(self)

    def pullback(*operands: Leaf) -> list[Leaf]:
      args, cotangents = list(operands[:num_inputs]), operands[num_inputs:]

      def differentiable(*moving: Leaf) -> list[Leaf]:
        given = dict(zip(inputs, moving, strict=True))
        results = function(*(given.get(i, arg) for i, arg in enumerate(args)))
        return [results[i] for i in outputs]

      _, pull = jax.vjp(differentiable, *(args[i] for i in inputs))
      return [_conjugate(cotangent) for cotangent in pull([_conjugate(cotangent) for cotangent in cotangents])]

    traced = trace_flat(
      pullback,
      (*self.inputs, *(self.outputs[i] for i in outputs)),
      name=f"{self.name}_vjp",
      input_names=(*self.input_names, *(f"{self.output_names[i]}_cotangent" for i in outputs)),
      output_names=tuple(f"{self.input_names[i]}_cotangent" for i in inputs),
      enable_x64=self.enable_x64,
    )
    _check_is_closed(traced, self.name)
    return dataclasses.replace(traced, fixed=self.fixed)


def _check_is_closed(gradient: TracedFunction, name: str) -> None:
  """Raises ConversionError if a derivative reads values of the trace of its function, which has ended."""
  if any(isinstance(const, jax.core.Tracer) for const in gradient.jaxpr.consts):
    raise ConversionError(
      f"{name}: a rule of jax.custom_vjp or jax.custom_jvp reads a value of the function around it that is not among "
      f"its arguments or residuals, so the derivative cannot be written. Pass the value as one of these."
    )


def trace(
  function: Callable[..., Any],
  args: Sequence[PyTree],
  kwargs: Mapping[str, PyTree] | None = None,
  *,
  name: str | None = None,
) -> TracedFunction:
  """Returns a JAX function as a function of flat arrays.

  Args:
    function: any JAX function of nested arrays.
    args: nested positional arguments: arrays, numbers, or anything with `shape` and `dtype`. Only shapes and dtypes are
      used. Dimensions may be symbolic (`jax.export.symbolic_shape`).
    kwargs: keyword arguments, likewise.
    name: the name of the result; by default that of the function.

  Raises:
    ConversionError: `function` cannot be called, an argument is not an array, or symbolic dimensions have different
      scopes.
  """
  if not callable(function):
    raise ConversionError(f"got a {type(function).__name__}, which cannot be called; expected a JAX function.")
  name = name or str(getattr(function, "__name__", type(function).__name__))
  leaves, in_tree = jax.tree.flatten((tuple(args), dict(kwargs or {})))
  names = argument_names(function, args, kwargs or {})
  specs = [array_spec(leaf, f"{name}: argument {where!r}") for leaf, where in zip(leaves, names, strict=True)]
  _check_one_scope(name, specs, names)
  result_tree: PyTreeDef | None = None

  def flat(*operands: Leaf) -> list[Leaf]:
    nonlocal result_tree
    wrapped = [as_keys(operand, spec.dtype) for operand, spec in zip(operands, specs, strict=True)]
    called_args, called_kwargs = jax.tree.unflatten(in_tree, wrapped)
    result = function(*called_args, **called_kwargs)
    result_tree = jax.tree.map(lambda _: 0, result)
    return [without_extended_dtype(leaf) for leaf in jax.tree.leaves(result)]

  variables = CapturedVariables()
  inputs = [_physical(spec) for spec in specs]
  trace_inputs = functools.partial(
    trace_flat, name=name, output_names=None, enable_x64=jax.config.jax_enable_x64, source=_definition(function)
  )
  with variables.collected():
    traced = trace_inputs(flat, inputs, input_names=names)
  if variables.variables:

    def flat_with_variables(*operands: Leaf) -> list[Leaf]:
      with variables.bound(operands[len(inputs) :]):
        return flat(*operands[: len(inputs)])

    all_names = [*names, *(variable.name for variable in variables.variables)]
    traced = trace_inputs(flat_with_variables, [*inputs, *variables.specs], input_names=all_names)
  return dataclasses.replace(
    traced,
    in_tree=in_tree,
    out_tree=jax.tree.structure(result_tree),
    output_names=result_names(result_tree),
    captured=tuple(variables.variables),
  )


def _check_one_scope(name: str, specs: Sequence[jax.ShapeDtypeStruct], names: Sequence[str]) -> None:
  """Raises ConversionError if symbolic dimensions have different scopes, which JAX cannot compare."""
  found: dict[int, tuple[str, Any]] = {}
  for spec, where in zip(specs, names, strict=True):
    for dim in filter(jax.export.is_symbolic_dim, spec.shape):
      found.setdefault(id(dim.scope), (where, spec.shape))
  if len(found) > 1:
    arguments = " and ".join(f"{where!r} of shape {shape}" for where, shape in found.values())
    raise ConversionError(
      f"{name}: the sizes of the arguments {arguments} are in different scopes, so JAX takes equal names for different "
      'sizes. Make all of them with one call, as in `a, b = jax.export.symbolic_shape("a, b")`, or pass the same '
      "`scope=jax.export.SymbolicScope()` to each call."
    )


def array_spec(value: object, where: str = "the argument") -> jax.ShapeDtypeStruct:
  """Returns shape and dtype of an array, with the dtype that JAX gives it; `where` is for messages.

  Raises:
    ConversionError: `value` is not an array.
  """
  shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
  if shape is None or dtype is None:
    if not isinstance(value, bool | int | float | complex):
      raise ConversionError(
        f"{where} is {value!r:.80}; expected an array, or a jax.ShapeDtypeStruct. Bind other values with "
        f"functools.partial."
      )
    shape, dtype = (), jnp.result_type(value)
  if not jnp.issubdtype(dtype, jax.dtypes.extended):
    try:
      dtype = jax.dtypes.canonicalize_dtype(np.dtype(dtype))
      jax.ShapeDtypeStruct(shape, dtype)
    except TypeError as e:
      raise ConversionError(f"{where} has dtype {dtype!r}, which JAX does not have.") from e
    if dtype.kind in "OSUMm":
      raise ConversionError(f"{where} has dtype {dtype}, which JAX does not have.")
  return jax.ShapeDtypeStruct(tuple(shape), dtype)


def trace_flat(
  function: Callable[..., list[Leaf]],
  inputs: Sequence[jax.ShapeDtypeStruct],
  *,
  name: str,
  input_names: Sequence[str],
  output_names: Sequence[str] | None,
  enable_x64: bool,
  source: Callable[..., Any] | None = None,
) -> TracedFunction:
  """Returns a function of flat arrays, traced for the given inputs; see `TracedFunction` for the names."""
  named = _named(function, name, input_names, source)
  with jax.enable_x64(enable_x64):
    jaxpr, results = jax.make_jaxpr(named, return_shape=True)(*inputs)
  outputs = tuple(jax.ShapeDtypeStruct(result.shape, result.dtype) for result in results)
  return TracedFunction(
    name,
    jaxpr,
    tuple(inputs),
    outputs,
    tuple(input_names),
    tuple(f"output_{i}" for i in range(len(outputs))) if output_names is None else tuple(output_names),
    jax.tree.structure((tuple(inputs), {})),
    jax.tree.structure(list(outputs)),
    enable_x64,
  )


def _named(
  function: Callable[..., list[Leaf]], name: str, input_names: Sequence[str], source: Callable[..., Any] | None = None
) -> Callable[..., list[Leaf]]:
  """Returns the function with a name, which JAX writes into modules.

  Args:
    function: a function of flat arrays.
    name: the name.
    input_names: the names of its arguments, for JAX's messages.
    source: the function of the caller that it runs; JAX's messages say where that is defined.
  """

  def call(*args: Leaf) -> list[Leaf]:
    return function(*args)

  call.__name__ = call.__qualname__ = name
  kind = inspect.Parameter.POSITIONAL_ONLY
  names = [re.sub(r"\W", "_", f"_{text}" if not text or text[0].isdigit() else text) for text in input_names]
  if len(set(names)) == len(names) and not any(map(keyword.iskeyword, names)):
    call.__signature__ = inspect.Signature([inspect.Parameter(text, kind) for text in names])  # type: ignore[attr-defined]
  if source is not None:
    call.__wrapped__ = source  # type: ignore[attr-defined]  # as `functools.wraps` does
  return call


def _definition(function: Callable[..., Any]) -> Callable[..., Any]:
  """Returns the Python function that runs if a callable object is called, for messages."""
  unwrapped = inspect.unwrap(function)
  while isinstance(unwrapped, functools.partial):
    unwrapped = inspect.unwrap(unwrapped.func)
  return unwrapped if hasattr(unwrapped, "__code__") else type(unwrapped).__call__


def _inexact(specs: Sequence[jax.ShapeDtypeStruct]) -> tuple[int, ...]:
  return tuple(i for i, spec in enumerate(specs) if jnp.issubdtype(spec.dtype, jnp.inexact))


def _conjugate(x: Array) -> Array:
  return jnp.conj(x) if jnp.iscomplexobj(x) else x


def _physical(spec: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
  """Returns the spec of an array of random keys as that of their data; other specs unchanged."""
  if not jnp.issubdtype(spec.dtype, jax.dtypes.prng_key):
    return spec
  data = jax.eval_shape(jax.random.key_data, spec)
  return jax.ShapeDtypeStruct(data.shape, data.dtype)


def as_keys(operand: Leaf, dtype: DTypeLike) -> Leaf:
  """Returns data of random keys as keys if the dtype is one of keys; other arrays are returned unchanged."""
  is_key = jnp.issubdtype(dtype, jax.dtypes.prng_key)
  if not is_key:
    return operand
  impls: list[Any] = []  # names, or specifications of implementations that have none
  jax.eval_shape(lambda keys: impls.append(jax.random.key_impl(keys)), jax.ShapeDtypeStruct((), dtype))
  return jax.random.wrap_key_data(operand, impl=impls[0])


def without_extended_dtype(result: Leaf) -> Leaf:
  """Returns random keys as their data, and float0 as bool; other arrays are returned unchanged."""
  dtype = getattr(result, "dtype", None)
  if dtype == jax.dtypes.float0:
    return jnp.zeros(result.shape, bool)
  if dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key):
    return jax.random.key_data(result)
  return result
