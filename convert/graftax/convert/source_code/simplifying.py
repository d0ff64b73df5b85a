"""Brings a block to its normal form: no operation without effect, nothing unused, broadcasting left to numpy."""

from collections import Counter
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from graftax.convert.source_code.loops import prune_scan
from graftax.convert.source_code.program import Block, Dim, Equation, Literal, Operand, Value, uses

__all__ = ["BROADCASTING", "same_shape", "simplify"]

# Elementwise primitives whose spelling broadcasts as numpy does.
BROADCASTING = frozenset(
  "add sub mul div rem pow max min atan2 nextafter and or xor eq ne lt le gt ge select_n shift_left "
  "shift_right_logical shift_right_arithmetic".split()
)
_UNARY = frozenset(
  "neg exp exp2 log log1p expm1 sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sqrt rsqrt cbrt "
  "logistic erf erfc erf_inv sign floor ceil round square integer_pow abs not is_finite stop_gradient "
  "convert_element_type".split()
)
_REDUCTIONS = frozenset(("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or"))
_SCALAR: dict[str, Callable[..., object]] = {
  "add": np.add,
  "sub": np.subtract,
  "mul": np.multiply,
  "lt": np.less,
  "le": np.less_equal,
  "gt": np.greater,
  "ge": np.greater_equal,
  "eq": np.equal,
  "ne": np.not_equal,
  "max": np.maximum,
  "min": np.minimum,
  "and": np.logical_and,
  "or": np.logical_or,
}


def simplify(block: Block) -> Block:
  """Returns the block in normal form; it is changed in place."""
  _forward(block, {}, {})
  _unused(block)
  return block


def same_shape(x: tuple[Dim, ...], y: tuple[Dim, ...]) -> bool:
  """Returns whether two shapes are equal; sizes that cannot be compared are not."""
  return len(x) == len(y) and all(_same(a, b) for a, b in zip(x, y, strict=True))


def _same(a: Dim, b: Dim) -> bool:
  try:
    return bool(a == b)
  except Exception:  # Inconclusive comparisons of symbolic dimensions, of which JAX has several classes.
    return False


def _forward(block: Block, replaced: dict[Value, Operand], producers: dict[Value, Equation]) -> None:
  """Rewrites equations from first to last."""

  def new(operand: Operand) -> Operand:
    return replaced.get(operand, operand) if isinstance(operand, Value) else operand

  kept: list[Equation] = []
  for equation in block.equations:
    equation.inputs = [new(operand) for operand in equation.inputs]
    for body in equation.bodies.values():
      _forward(body, replaced, producers)
    _canonical(equation, producers)
    found = _replacement(equation, producers)
    if found is not None:
      replaced[equation.outputs[0]] = found
      continue
    first = _before_new_axes(equation, producers)
    if first is not None:
      known = _replacement(first, producers)
      if known is not None:
        equation.inputs = [known]
      else:
        kept.append(first)
        producers[first.outputs[0]] = first
    kept.append(equation)
    for value in equation.outputs:
      producers[value] = equation
  block.equations = kept
  block.results = [new(operand) for operand in block.results]


def _replacement(equation: Equation, producers: dict[Value, Equation]) -> Operand | None:
  """Returns what an equation's result is already, if it is something."""
  if len(equation.outputs) != 1:
    return None
  op, inputs, out = equation.op, equation.inputs, equation.outputs[0]
  if op in ("copy", "copy_p", "convert_element_type", "reshape", "tile", "pvary"):
    if inputs[0].dtype == out.dtype and same_shape(inputs[0].shape, out.shape):
      return inputs[0]
  if op == "transpose" and tuple(equation.settings["permutation"]) == tuple(range(len(out.shape))):
    return inputs[0]
  if op in ("slice", "concatenate") and len(inputs) == 1 and same_shape(inputs[0].shape, out.shape):
    return inputs[0]
  if op == "pad" and not any(low or high for low, high, _ in equation.settings["padding_config"]):
    if same_shape(inputs[0].shape, out.shape):
      return inputs[0]
  if op == "dynamic_update_slice" and same_shape(inputs[0].shape, inputs[1].shape):
    return inputs[1]
  if op in ("mul", "add") and len(inputs) == 2:
    neutral = 1 if op == "mul" else 0
    for this, other in (inputs, inputs[::-1]):
      if isinstance(this, Literal) and _is_neutral(op, this.array, neutral):
        if same_shape(other.shape, out.shape):
          return other
  if op == "select_n" and len(inputs) == 3 and isinstance(inputs[0], Literal) and inputs[0].array.shape == ():
    chosen = inputs[1 + int(inputs[0].array)]
    if same_shape(chosen.shape, out.shape):
      return chosen
  if op == "select_n" and len(inputs) == 3 and inputs[0].dtype == bool and same_shape(inputs[0].shape, out.shape):
    if [_known_bool(operand, producers) for operand in inputs[1:]] == [False, True]:
      return inputs[0]
  return _folded(equation)


def _is_neutral(op: str, array: np.ndarray, neutral: int) -> bool:
  """Returns whether an operation with a constant changes no bit; a sum with 0.0 changes -0.0."""
  return (array.dtype.kind in "iu" or op == "mul") and bool((array == neutral).all())


def _folded(equation: Equation) -> Literal | None:
  """Returns the value of an operation on scalars that are literals."""
  out = equation.outputs[0]
  arrays = [operand.array for operand in equation.inputs if isinstance(operand, Literal)]
  if out.shape != () or not arrays or len(arrays) != len(equation.inputs) or any(a.shape for a in arrays):
    return None
  if jnp.issubdtype(out.dtype, jax.dtypes.extended):
    return None
  if equation.op == "reshape":
    return Literal(arrays[0])
  if equation.op == "convert_element_type":
    with np.errstate(all="ignore"):
      value = arrays[0].astype(out.dtype)
    exact = arrays[0].dtype.kind in "biu" and np.dtype(out.dtype).kind not in "biuc"
    part = value.real if value.dtype.kind == "c" and arrays[0].dtype.kind != "c" else value
    same = np.array_equal(part.astype(arrays[0].dtype), arrays[0], equal_nan=arrays[0].dtype.kind in "fc")
    return Literal(np.asarray(value)) if same and (exact or arrays[0].dtype.kind != "c") else None
  function = _SCALAR.get(equation.op)
  if function is None:
    return None
  with np.errstate(all="ignore"):
    result = np.asarray(function(*arrays)).astype(out.dtype)
  if any(a.dtype.kind not in "iub" for a in arrays):
    # Sums and products are rounded alike everywhere, except for subnormal numbers.
    rounded = equation.op in ("add", "sub", "mul") and all(a.dtype in (np.float32, np.float64) for a in arrays)
    if not rounded or not (result == 0 or abs(result) >= np.finfo(result.dtype).tiny) or not np.isfinite(result):
      return None
  return Literal(result)


def _canonical(equation: Equation, producers: dict[Value, Equation]) -> None:
  """Writes an equation in the one form that means the same."""
  if equation.op in ("and", "or"):
    _without_constants(equation, producers)
  if equation.op == "squeeze" or equation.op == "expand_dims":
    equation.op, equation.settings = "reshape", {}
  if equation.op == "broadcast_in_dim":
    (operand, *_), out = equation.inputs, equation.outputs[0]
    dims = tuple(int(d) for d in equation.settings["broadcast_dimensions"])
    equation.settings = {"broadcast_dimensions": dims, "shape": out.shape}
    sizes = [out.shape[d] for d in dims]
    if same_shape(operand.shape, tuple(sizes)) and all(
      _same(size, 1) for d, size in enumerate(out.shape) if d not in dims
    ):
      equation.op, equation.settings = "reshape", {}
      equation.inputs = [operand]
  if equation.op == "reshape":
    if equation.settings.get("dimensions") is None:
      equation.settings, equation.inputs = {}, equation.inputs[:1]
    first = producers.get(equation.inputs[0]) if isinstance(equation.inputs[0], Value) else None
    if first is not None and not equation.settings:
      _joined_reshape(equation, first)
  if equation.op == "convert_element_type":
    equation.settings = {"new_dtype": equation.outputs[0].dtype}
  if equation.op == "slice" and all(s == 1 for s in equation.settings.get("strides") or ()):
    equation.settings = {k: v for k, v in equation.settings.items() if k != "strides"}
  if equation.op == "dot_general":
    if equation.settings.get("preferred_element_type") == equation.inputs[0].dtype == equation.inputs[1].dtype:
      equation.settings = {k: v for k, v in equation.settings.items() if k != "preferred_element_type"}
  if equation.op == "conv_general_dilated":
    equation.settings = {k: v for k, v in equation.settings.items() if k not in ("lhs_shape", "rhs_shape")}
    if equation.settings.get("preferred_element_type") == equation.inputs[0].dtype:
      del equation.settings["preferred_element_type"]
  if equation.op in BROADCASTING:
    _drop_broadcasts(equation, producers)


def _without_constants(equation: Equation, producers: dict[Value, Equation]) -> None:
  """Replaces `x & True` and `x | False` by `x`, and `x & False` and `x | True` by a number, as broadcasts, in place."""
  out, neutral = equation.outputs[0], equation.op == "and"
  for this, other in (equation.inputs, equation.inputs[::-1]):
    known = _known_bool(this, producers)
    if known is not None:
      source: Operand = other if known == neutral else Literal(np.asarray(known))
      lead = len(out.shape) - len(source.shape)
      equation.op, equation.inputs = "broadcast_in_dim", [source]
      equation.settings = {"broadcast_dimensions": tuple(range(lead, len(out.shape))), "shape": out.shape}
      return


def _known_bool(operand: Operand, producers: dict[Value, Equation]) -> bool | None:
  """Returns the value of all elements, if they are one boolean."""
  source = _broadcast_source(operand, producers)
  source = operand if source is None else source
  if not isinstance(source, Literal) or source.array.dtype != bool or not source.array.size:
    return None
  first = bool(source.array.reshape(-1)[0])
  return first if bool((source.array == first).all()) else None


def _joined_reshape(equation: Equation, first: Equation) -> None:
  """Joins a reshape with the operation before it, if one call does both."""
  out, before = equation.outputs[0].shape, first.inputs[0].shape if first.inputs else ()
  if first.op == "reshape" and not first.settings:
    equation.inputs = list(first.inputs)
  elif first.op in _REDUCTIONS and not first.settings.get("keepdims"):
    axes = first.settings["axes"]
    kept = tuple(1 if d in axes else size for d, size in enumerate(before))
    if same_shape(kept, out) and axes:
      equation.op, equation.inputs = first.op, list(first.inputs)
      equation.settings = {**first.settings, "keepdims": True}
  elif first.op == "slice" and not first.settings.get("squeezed"):
    sliced = first.outputs[0].shape
    for squeezed in _single_sizes(sliced, len(sliced) - len(out)):
      if same_shape(tuple(size for d, size in enumerate(sliced) if d not in squeezed), out):
        equation.op, equation.inputs = "slice", list(first.inputs)
        equation.settings = {**first.settings, "squeezed": squeezed}
        return


def _single_sizes(shape: tuple[Dim, ...], count: int) -> list[tuple[int, ...]]:
  """Returns the dimensions of size 1, if there are this many."""
  single = tuple(d for d, size in enumerate(shape) if _same(size, 1))
  return [single] if count > 0 and len(single) == count else []


def _drop_broadcasts(equation: Equation, producers: dict[Value, Equation]) -> None:
  """Lets operands broadcast by themselves, as numpy does."""
  out = equation.outputs[0].shape
  candidates = list(equation.inputs)
  for i, operand in enumerate(candidates):
    source = _broadcast_source(operand, producers)
    if source is None:
      continue
    tried = [*candidates[:i], source, *candidates[i + 1 :]]
    if same_shape(_numpy_shape([c.shape for c in tried]), out):
      candidates = tried
  equation.inputs = candidates


def _before_new_axes(equation: Equation, producers: dict[Value, Equation]) -> Equation | None:
  """Computes elements before dimensions of size 1 are put in front of them; the equation becomes what adds these.

  Returns:
    The equation that computes the elements, or None if there are no such dimensions.
  """
  if len(equation.outputs) != 1 or not (equation.op in BROADCASTING or equation.op in _UNARY):
    return None
  out = equation.outputs[0]
  sources = [_without_new_axes(operand, producers) for operand in equation.inputs]
  if sources == list(equation.inputs):
    return None
  shape = _numpy_shape([source.shape for source in sources])
  lead = len(out.shape) - len(shape)
  if lead <= 0 or not same_shape(out.shape, (*[1] * lead, *shape)):
    return None
  if len(equation.inputs) > 1 and any(isinstance(s, Value) and len(s.shape) != len(shape) and s.shape for s in sources):
    return None
  inner = Value(shape, out.dtype, out.name)
  first = Equation(equation.op, sources, [inner], equation.settings, {}, equation.scope)
  equation.op, equation.inputs, equation.settings = "reshape", [inner], {}
  return first


def _without_new_axes(operand: Operand, producers: dict[Value, Equation]) -> Operand:
  producer = producers.get(operand) if isinstance(operand, Value) else None
  if producer is None or producer.op != "reshape" or producer.settings:
    return operand
  source = producer.inputs[0]
  lead = len(operand.shape) - len(source.shape)
  fits = lead > 0 and same_shape(operand.shape, (*[1] * lead, *source.shape))
  return source if fits else operand


def _broadcast_source(operand: Operand, producers: dict[Value, Equation]) -> Operand | None:
  """Returns the array that numpy would broadcast to the operand, whatever it is combined with."""
  if isinstance(operand, Literal):
    array = operand.array
    if array.shape and array.size and (array == array.reshape(-1)[0]).all():
      return Literal(array.reshape(-1)[0].reshape(()))
    return None
  producer = producers.get(operand)
  if (
    producer is None
    or producer.op not in ("reshape", "broadcast_in_dim")
    or (producer.op == "reshape" and producer.settings)
  ):
    return None
  source = producer.inputs[0]
  lead = len(operand.shape) - len(source.shape)
  if producer.op == "broadcast_in_dim":
    dims = producer.settings["broadcast_dimensions"]
    fits = dims == tuple(range(lead, len(operand.shape)))
  else:
    fits = lead > 0 and same_shape(source.shape, operand.shape[lead:])
  return source if fits else None


def _numpy_shape(shapes: list[tuple[Dim, ...]]) -> tuple[Dim, ...]:
  rank = max(len(shape) for shape in shapes)
  out: list[Dim] = []
  for d in range(rank):
    sizes = [shape[d - rank + len(shape)] for shape in shapes if d - rank + len(shape) >= 0]
    out.append(next((size for size in sizes if not _same(size, 1)), 1))
  return tuple(out)


def _unused(block: Block) -> None:
  """Drops equations whose results nothing reads."""
  counts = Counter(uses(block))
  kept: list[Equation] = []
  for equation in reversed(block.equations):
    if not any(counts[value] for value in equation.outputs):
      counts.subtract(operand for operand in equation.inputs if isinstance(operand, Value))
      for body in equation.bodies.values():
        counts.subtract(uses(body))
      continue
    kept.append(equation)
  block.equations = kept[::-1]
  pruned = False
  for equation in block.equations:
    if equation.op == "scan":
      pruned |= prune_scan(equation, counts)
    for body in equation.bodies.values():
      _unused(body)
  if pruned:
    _unused(block)
