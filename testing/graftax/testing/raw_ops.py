"""One TensorFlow op against its lowering: value, dtype, shape, `jit`, `vmap` and derivatives.

The lowering is reached the way a converted model reaches it: the op's node is serialized by TensorFlow, parsed by
`graphdef_ir`, and bound by `ops_jax`.
"""

import dataclasses
import functools
import inspect
import itertools
import operator
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from graftax.graphdef_ir import FunctionRef, GraftaxError, Node, op_signature, parse_graph
from graftax.ops_jax import (
  Int64Pair,
  IntegerFacts,
  Kernel,
  LoopLength,
  Lowering,
  LoweringOptions,
  PureFunction,
  ResourceHandle,
  Value,
  as_int64_pair,
  bind,
  canonical_dtype,
  materialize,
  shape_vector,
)
from graftax.ops_jax import lowering as registered_lowering
from graftax.testing._tensorflow import import_tensorflow
from graftax.testing.tolerance import tolerance as default_tolerance

__all__ = ["NodeContext", "RawOp", "check_raw_op", "check_raw_op_rejects", "raw_op", "tensorflow_op"]

_NODE = "op_under_test"
_NARROWED = {
  np.dtype(np.int64): np.dtype(np.int32),
  np.dtype(np.uint64): np.dtype(np.uint32),
  np.dtype(np.float64): np.dtype(np.float32),
  np.dtype(np.complex128): np.dtype(np.complex64),
}
_Tolerance = tuple[float, float]


@dataclasses.dataclass(slots=True)
class NodeContext:
  """A `Context` for one node outside any graph; `state` stands for the program's variables.

  Attributes:
    state: value of each resource.
    key: what `rng()` returns, or None for a program without randomness.
    options: options that lowerings read.
    functions: Python functions that stand for library functions, by name.
    facts: what lowerings note about traced integers.
  """

  state: dict[ResourceHandle, Value] = dataclasses.field(default_factory=dict)
  key: jax.Array | None = None
  options: LoweringOptions = LoweringOptions()
  functions: dict[str, Callable[..., Any]] = dataclasses.field(default_factory=dict)
  facts: IntegerFacts = dataclasses.field(default_factory=IntegerFacts)
  node_name: str = _NODE
  function_name: str = "test"

  def read(self, handle: ResourceHandle) -> Value:
    """Returns the value in `state`."""
    return self.state[handle]

  def write(self, handle: ResourceHandle, value: Value) -> None:
    """Replaces the value in `state`."""
    self.state[handle] = value

  def call(self, function: FunctionRef, args: Sequence[Value]) -> tuple[Value, ...]:
    """Runs the Python function that stands for `function`."""
    outputs = self.functions[function.name](*args)
    return tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)

  def pure(self, function: FunctionRef, args: Sequence[Value]) -> PureFunction:
    """Returns `function` as one that uses no resource."""
    return PureFunction((), (), lambda state, args, key: (self.call(function, args), tuple(state)))

  def detached(
    self, function: FunctionRef
  ) -> Callable[[Mapping[ResourceHandle, Value], Sequence[Value], jax.Array | None], tuple[Value, ...]]:
    """Returns `function` as one that uses no variable."""
    return lambda state, args, key: self.call(function, args)

  def loop_length(self, cond: FunctionRef, body: FunctionRef, args: Sequence[Value]) -> LoopLength:
    """Returns that nothing is known of the length."""
    return LoopLength()

  def rng(self) -> jax.Array:
    """Returns `key`."""
    if self.key is None:
      raise ValueError("this NodeContext was made without a key")
    return self.key


@dataclasses.dataclass(frozen=True, slots=True)
class RawOp:
  """A TensorFlow op with concrete inputs, and its lowering bound to the same node.

  Attributes:
    op: the op's name.
    oracle: TensorFlow's op as a function of the flat inputs; returns a list of TensorFlow tensors.
    kernel: our lowering, bound.
    inputs: flat numpy inputs.
    input_names: name of the op argument that each flat input belongs to.
    static: for each flat input, whether the lowering must know it while tracing.
  """

  op: str
  oracle: Callable[[Sequence[Any]], list[Any]]
  kernel: Kernel
  inputs: tuple[np.ndarray, ...]
  input_names: tuple[str, ...]
  static: tuple[bool, ...]

  @property
  def dynamic_inputs(self) -> tuple[np.ndarray, ...]:
    """The inputs that may be traced."""
    return tuple(x for x, static in zip(self.inputs, self.static, strict=True) if not static)

  def run(self, *dynamic_inputs: Value, context: NodeContext | None = None) -> tuple[Value, ...]:
    """Outputs of the lowering, with the static inputs filled in as numpy arrays."""
    dynamic = iter(dynamic_inputs)
    flat = [x if static else next(dynamic) for x, static in zip(self.inputs, self.static, strict=True)]
    return self.kernel.run(context or NodeContext(), flat)


def check_raw_op(
  op: str,
  inputs: Mapping[str, Any] | Sequence[Any],
  attrs: Mapping[str, Any] | None = None,
  *,
  static: Collection[str] = (),
  grad: bool | Collection[str] = False,
  grad_order: int = 1,
  forward: bool = True,
  vmap: bool | Collection[str] = True,
  jit: bool = True,
  known: bool = True,
  without_x64: bool | _Tolerance = True,
  symbolic: Mapping[str, str | Sequence[str]] | None = None,
  tolerance: _Tolerance | None = None,
  grad_tolerance: _Tolerance | None = None,
  lowering: Lowering | None = None,
) -> None:
  """Compares an op's lowering with `tf.raw_ops`, in every way a converted model can use it.

  Every output's value, dtype and shape is compared: eagerly, from known (numpy) inputs, under `jit`, with 64-bit types
  switched off, and, if asked for, exported with symbolic dimensions. Gradients are compared with `tf.GradientTape`,
  `vmap` with a loop.

  Args:
    op: TensorFlow's op name.
    inputs: the op's inputs by argument name, or in order; numpy arrays (or what `np.asarray` takes), a list of them
      for a list-valued argument. Give dtypes: a Python float is float64.
    attrs: attributes, as `tf.raw_ops` takes them; numpy dtypes are fine. Type attributes are inferred.
    static: arguments to pass as known values, besides those that the lowering marks `Static`.
    grad: arguments to differentiate with respect to; True for every floating-point one that is not static. Where
      TensorFlow has no gradient, zero is expected.
    grad_order: 2 compares second derivatives too.
    forward: whether `jvp` must agree with `vjp`; False for lowerings that are made with `custom_vjp`.
    vmap: False skips it; a collection of argument names batches only these, all at once. Otherwise all inputs are
      batched, jointly and one by one.
    jit: whether to run under `jit`.
    known: whether to run with all inputs known.
    without_x64: whether to run with 64-bit types switched off; a tolerance there instead of that of the narrow types.
      Inputs or outputs that 32 bits cannot hold are compared by shape and dtype.
    symbolic: integer arguments to export with symbolic dimensions as their known values, and other arguments to export
      with a symbolic shape: `{"shape": "a, 3", "tensor": "3*a"}`; a list for a list-valued argument. The other inputs
      stay traced, unless they are static.
    tolerance: `(rtol, atol)` instead of `tolerance(dtype, op)`.
    grad_tolerance: the same for derivatives; ten times `tolerance` by default.
    lowering: a lowering to check instead of the registered one.

  Raises:
    AssertionError: a difference; the message says in which mode and at which output.
  """
  with jax.enable_x64(True), warnings.catch_warnings():
    warnings.simplefilter("error")
    case = raw_op(op, inputs, attrs, static=static, lowering=lowering)
    if symbolic:
      # What has symbolic dimensions as its value is known.
      known_values = [_is_shape(x) and name in symbolic for name, x in zip(case.input_names, case.inputs, strict=True)]
      case = dataclasses.replace(case, static=tuple(map(operator.or_, case.static, known_values)))
    expected = [_to_numpy(t) for t in case.oracle(case.inputs)]
    compare = functools.partial(_compare, op, tolerance)
    traced = [jnp.asarray(x) if x.dtype != object else x for x in case.dynamic_inputs]
    compare("traced inputs", case.run(*traced), expected)
    if known:
      compare("known inputs", case.run(*case.dynamic_inputs), expected)
    has_strings = any(x.dtype == object for x in [*case.dynamic_inputs, *expected])
    if jit and not has_strings:
      compare("jit", jax.jit(case.run)(*traced), expected)
      if without_x64:
        _check_without_x64(case, expected, tolerance if isinstance(without_x64, bool) else without_x64)
    if symbolic:
      compare("symbolic dimensions", _run_exported(case, symbolic, expected), expected)
    if vmap and traced and not has_strings:
      _check_vmap(case, vmap, compare)
    if grad:
      _check_grad(case, grad, grad_order, forward, grad_tolerance or tolerance)


def check_raw_op_rejects(
  op: str, inputs: Mapping[str, Any] | Sequence[Any], attrs: Mapping[str, Any] | None = None, *, match: str = ""
) -> None:
  """Checks that TensorFlow and our lowering both refuse the inputs, ours with a typed error.

  Args:
    op: TensorFlow's op name.
    inputs: as for `check_raw_op`.
    attrs: as for `check_raw_op`.
    match: text that our message must contain.

  Raises:
    AssertionError: one of the two accepted the inputs, or our message lacks `match`.
  """
  tf = import_tensorflow()
  with jax.enable_x64(True):
    case = raw_op(op, inputs, attrs, infer_shapes=False)
    try:
      case.oracle(case.inputs)
    except (tf.errors.OpError, ValueError, TypeError):
      pass
    else:
      raise AssertionError(f"{op}: TensorFlow accepts these inputs")
    try:
      outputs = case.run(*[jnp.asarray(x) if x.dtype != object else x for x in case.dynamic_inputs])
    except GraftaxError as e:
      if match not in str(e):
        raise AssertionError(f"{op}: the message {str(e)!r} does not contain {match!r}") from e
    else:
      raise AssertionError(f"{op}: the lowering accepts inputs that TensorFlow refuses, and returns {outputs!r}")


def raw_op(
  op: str,
  inputs: Mapping[str, Any] | Sequence[Any],
  attrs: Mapping[str, Any] | None = None,
  *,
  static: Collection[str] = (),
  lowering: Lowering | None = None,
  infer_shapes: bool = True,
) -> RawOp:
  """An op ready to run both in TensorFlow and through its lowering; for checks that `check_raw_op` does not make.

  Args:
    op: TensorFlow's op name.
    inputs: as for `check_raw_op`.
    attrs: as for `check_raw_op`.
    static: as for `check_raw_op`.
    lowering: as for `check_raw_op`.
    infer_shapes: whether TensorFlow may see the inputs' shapes when it makes the node (and refuse them).

  Raises:
    AssertionError: the op has no lowering.
  """
  oracle, flat, flat_names = tensorflow_op(op, inputs, attrs)
  entry = lowering or _registered(op)
  signature = op_signature(op)
  node = _make_node(oracle, flat, infer_shapes)
  statics = {p.name for p in entry.inputs if p.static_type is not None} | set(static)
  by_position = dict(zip([arg.name for arg in signature.inputs], entry.inputs, strict=True))
  is_static = tuple(name in statics or by_position[name].static_type is not None for name in flat_names)
  return RawOp(op, oracle, bind(node, signature, entry, "test"), flat, flat_names, is_static)


def tensorflow_op(
  op: str, inputs: Mapping[str, Any] | Sequence[Any], attrs: Mapping[str, Any] | None = None
) -> tuple[Callable[[Sequence[Any]], list[Any]], tuple[np.ndarray, ...], tuple[str, ...]]:
  """Returns an op as a function of flat inputs, these inputs, and the argument that each belongs to.

  Args:
    op: TensorFlow's op name.
    inputs: as for `check_raw_op`.
    attrs: as for `check_raw_op`.
  """
  names = [arg.name for arg in op_signature(op).inputs]
  by_name = dict(inputs) if isinstance(inputs, Mapping) else dict(zip(names, inputs, strict=True))
  flat: list[np.ndarray] = []
  flat_names: list[str] = []
  for name in names:
    values = by_name[name] if isinstance(by_name[name], list) else [by_name[name]]
    flat.extend(_as_input(v) for v in values)
    flat_names.extend([name] * len(values))
  lists = {name for name in names if isinstance(by_name[name], list)}
  oracle = functools.partial(_run_tensorflow, op, tuple(flat_names), lists, dict(attrs or {}))
  return oracle, tuple(flat), tuple(flat_names)


def _registered(op: str) -> Lowering:
  entry = registered_lowering(op)
  if entry is None:
    raise AssertionError(f"{op} has no lowering")
  return entry


def _as_input(value: Any) -> np.ndarray:
  array = np.asarray(value)
  return array.astype(object) if array.dtype.kind in "SU" else array


def _run_tensorflow(
  op: str, names: Sequence[str], lists: Collection[str], attrs: Mapping[str, Any], flat: Sequence[Any]
) -> list[Any]:
  tf = import_tensorflow()
  kwargs: dict[str, Any] = {name: [] for name in lists}
  for name, value in zip(names, flat, strict=True):
    tensor = tf.constant(value, dtype=value.dtype) if isinstance(value, np.ndarray) and value.dtype != object else value
    if name in lists:
      kwargs[name].append(tensor)
    else:
      kwargs[name] = tensor
  function = getattr(tf.raw_ops, op)
  renamed = _renamed_arguments(function, kwargs, attrs)
  result = function(**{renamed.get(name, name): value for name, value in kwargs.items()}, **attrs, name=_NODE)
  if isinstance(result, tf.Tensor):
    return [result]
  return [] if result is None or isinstance(result, tf.Operation) else _flatten(result)


def _renamed_arguments(function: Callable[..., Any], inputs: Collection[str], attrs: Collection[str]) -> dict[str, str]:
  # Python calls some arguments otherwise than the op does (`axis` for `reduction_indices`), in the same order.
  parameters = [name for name in inspect.signature(function).parameters if name not in attrs]
  unmatched = [name for name in inputs if name not in parameters]
  free = [name for name in parameters if name not in inputs]
  return dict(zip(unmatched, free, strict=False))


def _flatten(result: Any) -> list[Any]:
  flat: list[Any] = []
  for item in result:
    flat.extend(item if isinstance(item, (list, tuple)) else [item])
  return flat


def _make_node(oracle: Callable[[Sequence[Any]], list[Any]], flat: Sequence[np.ndarray], infer_shapes: bool) -> Node:
  # Hide the shapes from TensorFlow, which might refuse them; ranks suffice to make the node.
  visible: list[Callable[[np.ndarray], Any]] = [lambda x: x.shape]
  if not infer_shapes:
    visible = [lambda x: [None] * x.ndim, lambda x: None, *visible]
  for last, shape in enumerate(visible, start=1 - len(visible)):
    try:
      return _node_from_tensorflow(oracle, [(x, shape(x)) for x in flat])
    except (TypeError, ValueError):
      if not last:
        raise
  raise AssertionError("internal: unreachable")


def _node_from_tensorflow(
  oracle: Callable[[Sequence[Any]], list[Any]], inputs: Sequence[tuple[np.ndarray, Any]]
) -> Node:
  tf = import_tensorflow()
  with tf.Graph().as_default() as graph:
    oracle(
      [tf.compat.v1.placeholder(tf.string if x.dtype == object else tf.as_dtype(x.dtype), shape) for x, shape in inputs]
    )
  parsed = parse_graph(graph.as_graph_def().SerializeToString())
  return next(node for node in parsed.nodes if node.name == _NODE)


def _to_numpy(tensor: Any) -> np.ndarray:
  return np.asarray(tensor.numpy(), dtype=object if tensor.dtype.name == "string" else None)


def _compare(
  op: str, tolerance: _Tolerance | None, mode: str, actual: Sequence[Value], expected: Sequence[np.ndarray]
) -> None:
  if len(actual) != len(expected):
    raise AssertionError(f"{op} ({mode}): {len(actual)} outputs, TensorFlow has {len(expected)}")
  for index, (got, want) in enumerate(zip(actual, expected, strict=True)):
    where = f"{op} ({mode}), output {index}"
    if not isinstance(got, (np.ndarray, np.generic, jax.Array)):
      raise AssertionError(f"{where}: {type(got).__name__} is neither a numpy nor a JAX array")
    got = np.asarray(got)
    if got.dtype != want.dtype:
      raise AssertionError(f"{where}: dtype {got.dtype}, TensorFlow has {want.dtype}")
    if got.shape != want.shape:
      raise AssertionError(f"{where}: shape {got.shape}, TensorFlow has {want.shape}")
    _compare_values(where, got, want, tolerance or default_tolerance(want.dtype, op))


def _compare_values(where: str, got: np.ndarray, want: np.ndarray, tolerance: _Tolerance) -> None:
  rtol, atol = tolerance
  if want.dtype == object or want.dtype == bool or (rtol == 0 and atol == 0):
    np.testing.assert_array_equal(got, want, err_msg=where)
  else:
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=rtol, atol=atol, err_msg=where)


def _check_without_x64(case: RawOp, expected: Sequence[np.ndarray], tolerance: _Tolerance | None) -> None:
  """Compares with 64-bit types switched off: values where 32 bits hold them, shapes and dtypes everywhere.

  Known inputs are left as they are, for the evaluator folds what is known with 64-bit types on.
  """
  # Keys and counters of random ops are never cut.
  accepts_pairs = case.op.startswith("Stateless") and registered_lowering(case.op, int64_pairs=True) is not None
  with jax.enable_x64(False):
    narrow = [as_int64_pair(x) if accepts_pairs and x.dtype == np.uint64 else _narrowed(x) for x in case.dynamic_inputs]
    inputs = [x for x in narrow if x is not None]
    fits = len(inputs) == len(narrow)
    if fits:
      outputs = jax.device_get(jax.jit(case.run)(*inputs))
    else:
      specs = [
        n if isinstance(n, Int64Pair) else jax.ShapeDtypeStruct(x.shape, canonical_dtype(x.dtype))
        for n, x in zip(narrow, case.dynamic_inputs, strict=True)
      ]
      outputs = jax.eval_shape(case.run, *specs)
    dtypes = [canonical_dtype(want.dtype) for want in expected]
  if fits:
    expected = _expected_of_narrowed(case, inputs, expected)
  for index, (got, want, dtype) in enumerate(zip(outputs, expected, dtypes, strict=True)):
    where = f"{case.op} (64-bit types off), output {index}"
    if (got.shape, got.dtype) not in ((want.shape, dtype), (want.shape, want.dtype)):
      raise AssertionError(f"{where}: {got.dtype}{got.shape}, expected {dtype}{want.shape}")
    wanted = _narrowed(want)
    if fits and wanted is not None:
      _compare_values(where, np.asarray(got), wanted, _narrow_tolerance(case.op, tolerance, want.dtype, dtype))


def _narrow_tolerance(op: str, given: _Tolerance | None, wide: np.dtype, narrow: np.dtype) -> _Tolerance:
  if wide == narrow:
    return given or default_tolerance(narrow, op)
  # What was given is for the wide type, and the inputs were chosen for it: they may cost the narrow one more digits.
  rtol, atol = _loosened(default_tolerance(narrow, op))
  return (rtol, atol) if given is None else (max(given[0], rtol), max(given[1], atol))


def _narrowed(x: np.ndarray) -> np.ndarray | None:
  """`x` as JAX holds it without 64-bit types, or None where 32 bits cannot."""
  with np.errstate(over="ignore"):
    narrow = x.astype(_NARROWED.get(x.dtype, x.dtype))
  if x.dtype.kind in "iu":
    return narrow if np.array_equal(narrow, x) else None
  return narrow if np.array_equal(np.isfinite(narrow), np.isfinite(x)) else None


def _expected_of_narrowed(
  case: RawOp, narrow: Sequence[np.ndarray | Int64Pair], expected: Sequence[np.ndarray]
) -> Sequence[np.ndarray]:
  """What TensorFlow makes, in 64 bits, of inputs that were rounded to 32."""
  rounded = [np.asarray(x).astype(wide.dtype) for x, wide in zip(narrow, case.dynamic_inputs, strict=True)]
  if all(np.array_equal(x, y) for x, y in zip(rounded, case.dynamic_inputs, strict=True)):
    return expected
  dynamic = iter(rounded)
  flat = [x if static else next(dynamic) for x, static in zip(case.inputs, case.static, strict=True)]
  return [_to_numpy(t) for t in case.oracle(flat)]


def _run_exported(
  case: RawOp, symbolic: Mapping[str, str | Sequence[str]], expected: Sequence[np.ndarray]
) -> Sequence[jax.Array]:
  """Outputs of the op exported with symbolic dimensions, and then called with the case's inputs."""
  if not symbolic.keys() <= set(case.input_names):
    raise AssertionError(f"{case.op}: symbolic={symbolic!r} names no input among {case.input_names!r}")
  scope = jax.export.SymbolicScope()
  texts = {name: iter(text if isinstance(text, list) else itertools.repeat(text)) for name, text in symbolic.items()}
  known: dict[int, np.ndarray] = {}
  traced: dict[int, np.ndarray] = {}
  carriers: list[np.ndarray] = []
  specs: tuple[dict[int, jax.ShapeDtypeStruct], list[jax.ShapeDtypeStruct]] = ({}, [])
  for i, (name, x, static) in enumerate(zip(case.input_names, case.inputs, case.static, strict=True)):
    dims = jax.export.symbolic_shape(next(texts[name]), scope=scope) if name in symbolic else x.shape
    if name in symbolic and _is_shape(x):
      known[i] = shape_vector(dims).reshape(x.shape)
      # An array without elements carries the sizes into the exported function.
      sizes = [(dim, size) for dim, size in zip(dims, x.flat, strict=True) if jax.export.is_symbolic_dim(dim)]
      specs[1].append(jax.ShapeDtypeStruct((0, *(dim for dim, _ in sizes)), np.float32))
      carriers.append(np.zeros((0, *(size for _, size in sizes)), np.float32))
    elif static:
      known[i] = x
    else:
      specs[0][i] = jax.ShapeDtypeStruct(dims, x.dtype)
      traced[i] = x

  def run(traced: Mapping[int, Value], _: Sequence[Value]) -> list[jax.Array]:
    flat = [known[i] if i in known else traced[i] for i in range(len(case.inputs))]
    outputs = case.kernel.run(NodeContext(), flat)
    return [jnp.asarray(materialize(y, want.dtype)) for y, want in zip(outputs, expected, strict=True)]

  return jax.export.export(jax.jit(run))(*specs).call(traced, carriers)


def _is_shape(x: np.ndarray) -> bool:
  return x.dtype.kind in "iu" and x.ndim <= 1


def _check_vmap(case: RawOp, vmap: Literal[True] | Collection[str], compare: Callable[..., None]) -> None:
  names = [name for name, static in zip(case.input_names, case.static, strict=True) if not static]
  everything = tuple(range(len(names)))
  if vmap is True:
    choices = [everything] + ([(i,) for i in everything] if len(names) > 1 else [])
  else:
    choices = [tuple(i for i in everything if names[i] in vmap)]
  arguments = [_stacked(case, batched) for batched in choices]
  axes = [tuple(0 if i in batched else None for i in everything) for batched in choices]
  # One compiled program for all choices: compiling is most of the time that a check takes.
  run_all = jax.jit(lambda choices: [jax.vmap(case.run, in_axes=a)(*xs) for a, xs in zip(axes, choices, strict=True)])
  for batched, stacked, outputs in zip(choices, arguments, run_all(arguments), strict=True):
    examples = [case.run(*[jnp.asarray(x[k] if i in batched else x) for i, x in enumerate(stacked)]) for k in range(2)]
    compare(
      f"vmap over {[names[i] for i in batched]}", outputs, [np.stack(pair) for pair in zip(*examples, strict=True)]
    )


def _stacked(case: RawOp, batched: Collection[int]) -> list[np.ndarray]:
  """Returns the inputs, with two examples of each batched one."""
  # The second example holds the same values in another order, so that it stays in the op's domain.
  return [
    np.stack([x, np.roll(x.reshape(-1), 1).reshape(x.shape)]) if i in batched else x
    for i, x in enumerate(case.dynamic_inputs)
  ]


def _check_grad(
  case: RawOp, grad: Literal[True] | Collection[str], order: int, forward: bool, tolerance: _Tolerance | None
) -> None:
  names = [name for name, static in zip(case.input_names, case.static, strict=True) if not static]
  wanted = [i for i, name in enumerate(names) if _is_inexact(case.dynamic_inputs[i]) and (grad is True or name in grad)]
  if not wanted:
    raise AssertionError(f"{case.op}: grad={grad!r} names no floating-point input among {names!r}")
  points = [case.dynamic_inputs[i] for i in wanted]
  outputs = [_to_numpy(t) for t in case.oracle(case.inputs)]
  rng = np.random.default_rng(0)
  cotangents = [_random_like(rng, y) for y in outputs if _is_inexact(y)]

  def function(*xs: Value) -> tuple[Value, ...]:
    dynamic = [jnp.asarray(x) for x in case.dynamic_inputs]
    for i, x in zip(wanted, xs, strict=True):
      dynamic[i] = x
    return tuple(y for y, spec in zip(case.run(*dynamic), outputs, strict=True) if _is_inexact(spec))

  got, jax_second = _jax_gradients(function, points, cotangents, order)
  want, tf_second = _tensorflow_gradients(case, wanted, cotangents, order)
  for kind, actual, expected in (("gradient", got, want), ("second derivative", jax_second, tf_second)):
    for i, a, e in zip(wanted, actual, expected, strict=bool(actual)):
      where = f"{case.op} ({kind} with respect to {names[i]})"
      if (a.dtype, a.shape) != (e.dtype, e.shape):
        raise AssertionError(f"{where}: {a.dtype}{a.shape}, TensorFlow has {e.dtype}{e.shape}")
      _compare_values(where, a, e, tolerance or _loosened(default_tolerance(e.dtype, case.op)))
  if forward:
    _check_forward(case.op, function, points, cotangents)


def _loosened(tolerance: _Tolerance) -> _Tolerance:
  return 10 * tolerance[0], 10 * tolerance[1]


def _is_inexact(x: np.ndarray) -> bool:
  return jnp.issubdtype(x.dtype, jnp.inexact)


def _random_like(rng: np.random.Generator, y: np.ndarray) -> np.ndarray:
  values = rng.uniform(0.5, 1.5, y.shape)
  if y.dtype.kind == "c":
    values = values + 1j * rng.uniform(0.5, 1.5, y.shape)
  return np.asarray(values).astype(y.dtype)


def _conjugate(x: Any) -> Any:
  return x.conj() if x.dtype.kind == "c" else x


def _jax_gradients(
  function: Callable[..., Any], points: Sequence[np.ndarray], cotangents: Sequence[np.ndarray], order: int
) -> tuple[list[np.ndarray], list[np.ndarray]]:
  # TensorFlow's gradient of a complex function is the conjugate of JAX's.
  def first(*xs: Value) -> list[Value]:
    _, vjp = jax.vjp(function, *xs)
    return [_conjugate(g) for g in vjp(tuple(_conjugate(jnp.asarray(c)) for c in cotangents))]

  def second(*xs: Value) -> tuple[Value, ...]:
    return jax.grad(lambda *xs: sum(jnp.sum(g) for g in first(*xs)), argnums=tuple(range(len(xs))))(*xs)

  derivatives = jax.jit(lambda *xs: (first(*xs), second(*xs) if order > 1 else ()))
  first_order, second_order = derivatives(*[jnp.asarray(x) for x in points])
  return [np.asarray(g) for g in first_order], [np.asarray(g) for g in second_order]


def _tensorflow_gradients(
  case: RawOp, wanted: Sequence[int], cotangents: Sequence[np.ndarray], order: int
) -> tuple[list[np.ndarray], list[np.ndarray]]:
  tf = import_tensorflow()
  positions = [i for i, static in enumerate(case.static) if not static]
  flat = [tf.constant(x, dtype=x.dtype) if x.dtype != object else x for x in case.inputs]
  points = [flat[positions[i]] for i in wanted]

  def dense(gradients: Sequence[Any]) -> list[Any]:
    return [tf.zeros_like(x) if g is None else tf.convert_to_tensor(g) for g, x in zip(gradients, points, strict=True)]

  with tf.GradientTape(persistent=True) as outer:
    outer.watch(points)
    with tf.GradientTape() as inner:
      inner.watch(points)
      outputs = [y for y in case.oracle(flat) if y.dtype.is_floating or y.dtype.is_complex]
    gradients = dense(inner.gradient(outputs, points, [tf.constant(c, dtype=c.dtype) for c in cotangents]))
    total = tf.add_n([tf.reduce_sum(g) for g in gradients]) if order > 1 else None
  second = dense(outer.gradient(total, points)) if order > 1 else []
  return [_to_numpy(g) for g in gradients], [_to_numpy(g) for g in second]


def _check_forward(
  op: str, function: Callable[..., Any], points: Sequence[np.ndarray], cotangents: Sequence[np.ndarray]
) -> None:
  rng = np.random.default_rng(1)
  tangents = [_random_like(rng, x) for x in points]

  @jax.jit
  def both_modes(points: list[jax.Array], tangents: list[jax.Array], cotangents: tuple[jax.Array, ...]) -> Any:
    _, pushed = jax.jvp(function, points, tangents)
    _, vjp = jax.vjp(function, *points)
    return pushed, vjp(cotangents)

  pushed, pulled = both_modes(list(points), tangents, tuple(cotangents))
  # A function that conjugates is linear over the reals alone, and so the real parts are what must agree.
  forward = sum((_wide(t).ravel() @ _wide(c).ravel()).real for t, c in zip(pushed, cotangents, strict=True))
  backward = sum((_wide(t).ravel() @ _wide(p).ravel()).real for t, p in zip(tangents, pulled, strict=True))
  rtol = max(default_tolerance(x.dtype, op)[0] for x in (*points, *cotangents)) * 100
  np.testing.assert_allclose(forward, backward, rtol=rtol, atol=rtol, err_msg=f"{op}: jvp and vjp disagree")


def _wide(x: Any) -> np.ndarray:
  array = np.asarray(x)
  return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
