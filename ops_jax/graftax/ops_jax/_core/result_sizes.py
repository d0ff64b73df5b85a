"""Compares sizes of results with the limits of the call, before anything is allocated if possible.

Three checks share the work, because a size may be a number in the file or follow from the shapes of the inputs:

- `check_sizes`: before a lowering whose inputs are declared as `StaticSize` or `StaticSizes`, the product of these;
- `CheckSizes`: before a lowering that runs at once, on arrays, the shapes of its results, if the sizes of its inputs
  and attributes allow large ones;
- `check_results`: the shapes of results; enough if they are traced.

A lowering that computes the size of its result from known values, in NumPy, asks its parameter `budget: Budget`.
"""

import dataclasses
import enum
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import jax
import numpy as np

from graftax.graphdef_ir import Budget, LimitExceededError, UnsupportedError
from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.known import KNOWN_SIZE_LIMIT, InconclusiveError
from graftax.ops_jax._core.stages import Run
from graftax.ops_jax._core.values import Value, is_string

__all__ = [
  "NO_BUDGET",
  "CheckSizes",
  "argument_bytes",
  "check_known",
  "check_results",
  "check_sizes",
  "factor_of",
  "growth_of",
]


class _EachCall(Budget):
  """The default limits for calls of lowerings as functions, each by itself: nothing adds up."""

  __slots__ = ()

  def spend_text_bytes(self, num_bytes: int, where: str) -> None:
    self.check_text(num_bytes, where)

  def spend_steps(self, num_steps: int, where: str) -> None:
    Budget().spend_steps(num_steps, where)


NO_BUDGET = _EachCall()

# Sizes, and lists of positions that lowerings compute from them in NumPy, are 64-bit integers.
_ITEMSIZE_BYTES = 8

# An array with at most so many elements is not compared with the limits.
_SMALL = 1 << 20

# If the product of all sizes that decide on a result is at most that, the result is small, however they are combined.
_SURELY_SMALL = 1 << 10

# Larger arrays are not sizes but data.
_MOST_SIZES = 64

# If nothing multiplies sizes, a result has at most this many elements for each element of an input, such as the bytes
# of a complex number, or the positions of an element.
_MOST_RESULTS = 16

Growth = Literal["broadcast", "product", "square"]

_OURS = "graftax.ops_jax."
# All lowerings in these modules broadcast their inputs and keep that shape.
_BROADCASTING = frozenset(
  _OURS + module
  for module in (
    *("math.binary", "math.bitwise", "math.clip", "math.comparison", "math.complex_numbers", "math.special"),
    *("math.unary", "nn.activations"),
  )
)
# Some lowerings in these modules make rows and columns of one axis: diagonal matrices, full sets of vectors.
_SQUARING = (_OURS + "array.diagonal", _OURS + "linalg.")

# Shapes that a node remembers as checked.
_MOST_KEYS = 256


def argument_bytes(leaves: Iterable[Value]) -> int:
  """Returns the size of arrays, without those that have symbolic dimensions, for `Budget`."""
  total = 0
  for leaf in leaves:
    if isinstance(leaf, np.ndarray):
      if 0 in leaf.strides:
        continue  # one element, repeated
      total += leaf.nbytes
      if leaf.dtype.kind == "O":
        total += sum(len(item) for item in leaf.flat if isinstance(item, bytes))
      continue
    size = getattr(leaf, "size", 1)
    if isinstance(size, int):
      total += size * getattr(getattr(leaf, "dtype", None), "itemsize", 1)
  return total


def check_sizes(sizes: Iterable[int], budget: Budget, where: str) -> None:
  """Checks the product of sizes that are numbers in the program; those that are symbolic or not positive are 1.

  Raises:
    LimitExceededError: so many elements need too much memory.
  """
  known = [size for size in sizes if isinstance(size, int) and size > 1]
  product = math.prod(known)
  if product > _SMALL:
    budget.check_array(known, _ITEMSIZE_BYTES, where)


def check_known(shape: Iterable[Any], budget: Budget, op: str, itemsize_bytes: int = _ITEMSIZE_BYTES) -> None:
  """Checks an array that a lowering is about to make of known values; symbolic dimensions count as 1.

  Raises:
    LimitExceededError: it needs too much memory.
  """
  budget.check_array([int(size) for size in shape if isinstance(size, (int, np.integer))], itemsize_bytes, op)


@dataclasses.dataclass(frozen=True, slots=True)
class CheckSizes:
  """Checks the results of a lowering that would allocate them at once, because none of its inputs is traced.

  A result has at most as many elements as `growth` says. If that may be too much, abstract evaluation finds the shapes
  of the results first.

  Attributes:
    static: positions of the static inputs.
    factor: the product of the integers among the attributes.
    where: the node, for messages.
    growth: how many elements a result may have: those of the inputs after broadcasting; or the product of the elements
      of all inputs, of the integers that are static inputs, and of the integers among the attributes; or that product,
      squared if there is only one input.
  """

  static: frozenset[int]
  factor: int
  where: str
  growth: Growth = "square"

  def wrap(self, run: Run) -> Run:
    """Returns a function that checks, and then calls `run`."""
    checked: set[Any] = set()
    static, factor = self.static, self.factor

    def check(context: Context, inputs: Sequence[Value]) -> tuple[Value, ...]:
      # Most nodes end here, so this loop calls no function for a NumPy array.
      surely = factor
      for position, value in enumerate(inputs):
        if position in static:
          surely *= _product(value)
        elif value.__class__ is np.ndarray:
          surely *= value.size or 1
        elif isinstance(value, jax.core.Tracer):
          return run(context, inputs)
        elif value.__class__ is list and not [item for item in value if item.__class__ is not np.ndarray]:
          for item in value:
            surely *= item.size or 1
        else:
          surely = _SURELY_SMALL + 1
      if surely <= _SURELY_SMALL:
        return run(context, inputs)
      product = self._most_elements(inputs)
      if product is not None and product > _SMALL and context.budget.may_exceed_array_bytes(product):
        key = _key(inputs, self.static)
        if key is None or key not in checked:
          _check_abstractly(run, context, inputs, self.static, self.where)
          # Values of other inputs do not decide on shapes: JAX does not know them.
          if key is not None:
            if len(checked) >= _MOST_KEYS:
              checked.clear()
            checked.add(key)
      return run(context, inputs)

    return check

  def _most_elements(self, inputs: Sequence[Value]) -> int | None:
    """Returns a bound for the elements of a result; None if an array in an input is traced."""
    if self.growth == "broadcast":
      return _elements_after_broadcasting(inputs)
    product, num_arrays = self.factor, 0
    for position, value in enumerate(inputs):
      if position in self.static:
        product *= _product(value)
      elif isinstance(value, (np.ndarray, jax.Array)):
        product *= value.size or 1
        num_arrays += 1
      elif not isinstance(value, (str, bytes, int)):
        for leaf in jax.tree.leaves(value):
          if isinstance(leaf, jax.core.Tracer):
            return None
          product *= max(int(getattr(leaf, "size", 1)), 1)
          num_arrays += 1
    if self.growth == "product":
      return _MOST_RESULTS * product
    # The rows and the columns of a result may come from the same axis, as those of a diagonal matrix do.
    return product * product if num_arrays == 1 else product


@functools.cache
def growth_of(function: Callable[..., Any]) -> Growth:
  """Returns how large the results of a lowering may be, from the module that it is in."""
  module = function.__module__
  if module in _BROADCASTING:
    return "broadcast"
  is_known = module.startswith(_OURS) and not module.startswith(_SQUARING)
  return "product" if is_known else "square"


def _elements_after_broadcasting(inputs: Sequence[Value]) -> int | None:
  shapes = set()
  for value in inputs:
    for leaf in (value,) if isinstance(value, (np.ndarray, jax.Array)) else jax.tree.leaves(value):
      if isinstance(leaf, jax.core.Tracer):
        return None
      shapes.add(getattr(leaf, "shape", ())[::-1])
  # Sizes that do not fit each other are an error that the lowering raises.
  return math.prod(map(max, itertools.zip_longest(*shapes, fillvalue=1)))


def factor_of(attrs: Mapping[str, Any]) -> int:
  """Returns the product of the integers among the attributes of a node, such as the sizes of windows."""
  product = 1
  for value in attrs.values():
    if value.__class__ is int or value.__class__ is tuple:
      product *= _product(value)
  return product


def _product(value: Any) -> int:
  """Returns the product of the absolute values of integers, without zeros; of anything else 1."""
  if value.__class__ is tuple:
    product = 1
    for item in value:
      product *= (item or 1) if item.__class__ is int else _product(item)
    return abs(product)
  if isinstance(value, enum.Enum):
    return 1
  if isinstance(value, int):
    return abs(value) or 1
  if isinstance(value, tuple):
    return _product(tuple(value))
  if isinstance(value, np.ndarray) and value.dtype.kind in "iu" and value.size <= _MOST_SIZES:
    return math.prod(abs(item) or 1 for item in value.reshape(-1).tolist())
  return 1


def _key(inputs: Sequence[Value], static: frozenset[int]) -> Any:
  """Returns what decides on the shapes of results; None if that is not known."""
  parts: list[Any] = []
  for position, value in enumerate(inputs):
    if position in static:
      if isinstance(value, np.ndarray):
        return None
      parts.append(value)
    elif isinstance(value, jax.Array) or (isinstance(value, np.ndarray) and value.dtype.kind not in "biuO"):
      parts.append((value.shape, value.dtype))
    elif isinstance(value, np.ndarray) and value.dtype.kind != "O":
      # Small NumPy integers are known to the lowering; large ones become abstract.
      parts.append((value.shape, value.dtype, None if _is_large(value) else value.tobytes()))
    elif isinstance(value, list) and (elements := _key(value, frozenset())) is not None:
      parts.append(elements)
    else:
      return None
  return tuple(parts)


def _check_abstractly(run: Run, context: Context, inputs: Sequence[Value], static: frozenset[int], where: str) -> None:
  free = [None if i in static else value for i, value in enumerate(inputs)]
  leaves, structure = jax.tree.flatten(free, is_leaf=lambda value: value is None)
  # Large arrays become abstract, so that nothing is computed with them in NumPy. So do strings, as numbers in the same
  # places: an op that accepts both gives results of the same shapes.
  abstract_leaves = {i: _as_abstract(leaf) for i, leaf in enumerate(leaves) if _is_large(leaf) or is_string(leaf)}

  def arrays(*abstract: Value) -> list[Value]:
    values = list(leaves)
    for i, value in zip(abstract_leaves, abstract, strict=True):
      values[i] = value
    given = jax.tree.unflatten(structure, values)
    given = [value if i in static else new for i, (value, new) in enumerate(zip(inputs, given, strict=True))]
    outputs = jax.tree.leaves(run(_ReadOnly(context), given))
    return [leaf for leaf in outputs if isinstance(leaf, (jax.Array, np.ndarray)) and leaf.dtype != object]

  try:
    shapes = jax.eval_shape(arrays, *abstract_leaves.values())
  except (jax.errors.JAXTypeError, UnsupportedError, _WritesError):
    return  # the lowering needs values, of arrays that exist; or it changes an array that exists
  except (TypeError, ValueError) as e:
    if not isinstance(e, LimitExceededError) and any(map(is_string, leaves)):
      return  # the lowering reads the strings, or the inputs do not fit together, which it will say
    raise
  for shape in shapes:
    if _is_known(shape.shape):
      context.budget.check_array(shape.shape, getattr(shape.dtype, "itemsize", 1), where)


def _is_known(shape: Sequence[int]) -> bool:
  """Returns whether no size is symbolic."""
  return all(isinstance(size, (int, np.integer)) for size in shape)


def _is_large(leaf: Value) -> bool:
  return isinstance(leaf, (jax.Array, np.ndarray)) and leaf.dtype != object and leaf.size > KNOWN_SIZE_LIMIT


def _as_abstract(leaf: Value) -> Value:
  return jax.ShapeDtypeStruct(leaf.shape, np.uint32) if is_string(leaf) else leaf


# Attributes of a context that have no effect if a lowering uses them twice. All others count as effects.
_WITHOUT_EFFECTS = frozenset(
  {"budget", "facts", "folder", "function_name", "key", "node_name", "options", "read", "rng"}
)


class _WritesError(Exception):
  """A lowering has an effect."""


class _ReadOnly:
  """A context without effects."""

  def __init__(self, context: Context) -> None:
    self._context = context

  def __getattr__(self, name: str) -> Any:
    if name not in _WITHOUT_EFFECTS:
      raise _WritesError
    return getattr(self._context, name)


def check_results(results: Iterable[Value], budget: Budget, where: str) -> None:
  """Checks the sizes of arrays among results; anything else, such as a list, is made of arrays that were checked.

  Args:
    results: values of any kind that an op returned. A symbolic size is not checked; a bounded one counts as its bound.
    budget: what is left of the limits. Arrays that are not traced are counted in `known_bytes`.
    where: the beginning of the error message: op, node and function.

  Raises:
    LimitExceededError: an array is too large.
  """
  for result in results:
    num_elements = 1
    try:
      for size in result.shape:
        num_elements *= size
      is_small = num_elements <= _SMALL
    except (AttributeError, TypeError, InconclusiveError):
      # Not an array, or one with symbolic dimensions. An array of bounded size is as large as its bounds.
      if (padded := getattr(result, "padded", None)) is not None:
        check_results((padded,), budget, where)
      continue
    # Of a symbolic size JAX knows that it is at least 1, so the number of elements can be known to be large.
    if not is_small and _is_known(result.shape):
      itemsize_bytes = getattr(result.dtype, "itemsize", 1)
      budget.check_array(result.shape, itemsize_bytes, where)
      if isinstance(result, (jax.Array, np.ndarray)) and not isinstance(result, jax.core.Tracer):
        budget.spend_known_bytes(math.prod(result.shape) * itemsize_bytes, where)
