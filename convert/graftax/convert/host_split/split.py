"""Splits a program into a part for the host, a numeric part in JAX, and a part for the host after it."""

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import jax
import numpy as np

from graftax.convert.annotated import AnnotatedFunction
from graftax.convert.conversion import convert_program
from graftax.convert.host_ops.without_host_form import WITHOUT_HOST_FORM
from graftax.convert.host_parts.boundary import CALLS_PYTHON
from graftax.convert.host_parts.parts import Parts, find_parts
from graftax.convert.host_split.carriers import KnownArray, PackedStrings
from graftax.convert.host_split.host_function import HostFunction, host_obstacles, plan_host_function
from graftax.convert.host_split.segment_sizes import with_segment_sizes
from graftax.convert.options import ConvertOptions, current_options
from graftax.convert.planning.control_flow_v1 import with_functional_control_flow
from graftax.convert.planning.preflight import check_files
from graftax.convert.planning.size_bounds import check_max_sizes, names_with_max_size
from graftax.convert.program import Program, validated
from graftax.convert.pytrees import Leaf, PyTree
from graftax.convert.shown_names import shown
from graftax.convert.structures.nested import InputStructure, OutputStructure, flatten_call
from graftax.convert.subgraph import cut, with_inlined_calls
from graftax.convert.variable import Variable
from graftax.graphdef_ir import DType, Function, Limits, Result, TensorRef, ancestors
from graftax.ops_jax import MissingOp, UnsupportedOpError, Value, as_int64_pair, canonical_dtype, fits_jax_dtype

__all__ = ["Body", "Head", "HeadFunction", "Split", "Tail", "split_program"]

HeadFunction = Callable[[Sequence[Value]], Sequence[Value]]
"""Computes the flat results of a head from its flat arguments; arrays of strings are of dtype object, with `bytes`."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Head:
  """The host's part of a program before its numbers.

  Attributes:
    function: computes the tensors that the body takes.
    inputs: the structure of the arguments.
    name: the name of the program, for messages.
    known: for each result, whether shapes in the body depend on its value.
  """

  function: HeadFunction
  inputs: InputStructure
  name: str
  known: tuple[bool, ...]

  def __repr__(self) -> str:
    return f"Head({self.name!r}, {len(self.known)} results)"

  def __call__(self, /, *args: PyTree, **kwargs: PyTree) -> tuple[Leaf, ...]:
    """Returns the arguments of the body after `params`.

    Strings are `str`, `bytes`, or lists or arrays of them.

    Raises:
      InputError: the arguments do not fit the signature.
      InvalidInputError: a value is malformed, as it would be in TensorFlow.
    """
    return tuple(map(_for_body, self.values(*args, **kwargs), self.known))

  def values(self, /, *args: PyTree, **kwargs: PyTree) -> Sequence[Value]:
    """Returns the results of the head as they are in TensorFlow; see `__call__`."""
    return self.function(self.flat_inputs(*args, **kwargs))

  def flat_inputs(self, /, *args: PyTree, **kwargs: PyTree) -> list[Leaf]:
    """Returns the arguments of a call as flat tensors, checked against the signature."""
    with jax.enable_x64(True):
      return flatten_call(
        self.inputs, args, kwargs, function=self.name, strict_shape_check=True, strict_dtype_check=False
      )


@dataclasses.dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Body:
  """The numeric part of a program: a JAX function, for any transform.

  Attributes:
    function: the converted part.
    num_inputs: the number of its inputs; what else the head returns is passed on to the tail.
  """

  function: AnnotatedFunction
  num_inputs: int

  def __call__(
    self, params: Mapping[str, Value], /, *tensors: Leaf, rng: Leaf = None
  ) -> tuple[tuple[Leaf, ...], dict[str, Value]]:
    """Returns `(results, new_params)` for the results of the head."""
    values = [tensor.value if isinstance(tensor, KnownArray) else _as_jax(tensor) for tensor in tensors]
    results, new_params = self.function.fn.run(params, values[: self.num_inputs], rng)  # type: ignore[attr-defined]
    return (*results, *tensors[self.num_inputs :]), new_params


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tail:
  """The host's part of a program after its numbers.

  Attributes:
    function: computes the results that only the host can compute.
    outputs: the structure of the program's results.
    sources: for each flat result, whether `function` computes it, and its position among the results of `function` or
      of the body.
    dtypes: the dtypes of the body's results in TensorFlow.
  """

  function: HostFunction
  outputs: OutputStructure
  sources: tuple[tuple[bool, int], ...]
  dtypes: tuple[DType, ...]

  def __repr__(self) -> str:
    return f"Tail({len(self.dtypes)} tensors to {len(self.sources)} results)"

  def __call__(self, result: tuple[Sequence[Leaf], Mapping[str, Value]]) -> PyTree:
    """Returns the program's results for `(results, new_params)` of the body. Strings are arrays of `bytes`."""
    values, _ = result
    made: list[Value] = []
    if any(on_host for on_host, _ in self.sources):
      made = self.function([_for_host(value, dtype) for value, dtype in zip(values, self.dtypes, strict=True)])
    flat = [made[i] if on_host else _for_caller(values[i]) for on_host, i in self.sources]
    return self.outputs.pack(flat)


class Split(NamedTuple):
  """The parts of a program: `tail(jax.jit(body)(params, *head(...)))` are its results.

  Attributes:
    head: the host's part before the numbers: strings, tables, encoded images.
    body: the numeric part, `body(params, *tensors, rng=None) -> (results, new_params)`.
    params: the parameters, by variable name.
    tail: the host's part after the numbers.
  """

  head: Head
  body: Body
  params: dict[str, Variable]
  tail: Tail

  def __repr__(self) -> str:
    body = self.body
    return (
      f"Split({self.head!r}, body of {body.num_inputs} arrays and {len(self.params)} parameters {shown(self.params)}, "
      f"{self.tail!r})"
    )


def split_program(
  program: Program,
  options: ConvertOptions | None = None,
  *,
  make_head: Callable[[Program], HeadFunction] = plan_host_function,
) -> Split:
  """Splits a program into a head and a tail for the host and a body in JAX, which run without TensorFlow.

  The head computes what JAX cannot: strings, tables of strings, encoded files. It also computes integers on which
  shapes depend, so that the body has static shapes for each of its results. The tail computes what depends on the
  body and cannot be computed in JAX, such as the names of classes.

  Args:
    program: the program.
    options: options of the conversion of the body; by default the current ones. Its `limits` are those of the head and
      the tail, too.
    make_head: returns what computes the head, given as a program with flat arguments and results. By default it runs on
      NumPy arrays.

  Raises:
    UnsupportedOpError: some ops are implemented neither for the host nor in JAX, or some tables cannot be read; one
      error lists all.
    ConversionError: a host op stands between two parts with variables, or a name in the option `max_sizes` is not that
      of a node or op that can use a bound.
    ControlFlowError: TF1 control flow in the program does not form conditionals and loops.

  Example:
    >>> import jax
    >>> from graftax.convert import jax_program
    >>> split = split_program(jax_program(lambda params, x: x * params["w"], [2.0], params={"w": 3.0}))
    >>> results = jax.jit(split.body)(split.params, *split.head(2.0))
    >>> float(split.tail(results))
    6.0
  """
  limits = (options or current_options()).limits
  functional = with_functional_control_flow(validated(program), limits)
  flat = with_segment_sizes(with_inlined_calls(functional, limits))
  parts = find_parts(flat, flat.function)
  _check(flat, parts.on_host if make_head is plan_host_function else parts.on_host & parts.in_tail)
  head, tail = _head_program(flat, parts), _tail_program(flat, parts)
  fed, fetched = [str(ref) for ref in parts.to_body], [str(ref) for ref in parts.to_tail]
  body = cut(flat, fed, fetched)
  function, params = convert_program(body, _options_of_body(flat, body, options))
  known = tuple(ref in parts.known for ref in (*parts.to_body, *parts.past_body))
  return Split(
    Head(
      plan_host_function(head, limits) if make_head is plan_host_function else make_head(head),
      program.inputs,
      program.name,
      known,
    ),
    Body(function, len(fed)),
    params,
    _tail(flat, parts, tail, limits),
  )


def _options_of_body(flat: Program, body: Program, options: ConvertOptions | None) -> ConvertOptions | None:
  """Returns the options without bounds of sizes that only the host's parts have."""
  sizes = (options or current_options()).max_sizes
  if not sizes:
    return options
  check_max_sizes(flat, sizes)
  kept = names_with_max_size(body)
  own = {name: size for name, size in sizes.items() if name in kept}
  return dataclasses.replace(options or current_options(), max_sizes=own)


def _head_program(flat: Program, parts: Parts) -> Program:
  """Returns the program of the head: what its results need, without side effects."""
  refs = [*parts.to_body, *parts.past_body]
  results = tuple(Result(str(ref), ref, DType.INVALID) for ref in refs)
  nodes = {node.name: node for node in flat.function.nodes}
  needed = ancestors(nodes, [ref.node for ref in refs], control=False)
  function = _without_control(dataclasses.replace(flat.function, results=results), needed)
  own = flat.function.parameters[: len(flat.function.parameters) - len(flat.captures)]
  return cut(dataclasses.replace(flat, function=function), [p.name for p in own], [str(ref) for ref in refs])


def _tail_program(flat: Program, parts: Parts) -> Program:
  """Returns the program of the tail, whose inputs are the results of the body."""
  fed = [str(ref) for ref in (*parts.to_tail, *parts.past_body)]
  part = cut(flat, fed, list(dict.fromkeys(str(ref) for ref in _made_by_tail(flat, parts))))
  needed = ancestors(
    {n.name: n for n in part.function.nodes}, [r.ref.node for r in part.function.results], control=False
  )
  return dataclasses.replace(part, function=_without_control(part.function, needed))


def _without_control(function: Function, needed: set[str]) -> Function:
  """Returns a function of some of its nodes, without control edges and with them the effects of others."""
  nodes = tuple(dataclasses.replace(n, control_inputs=()) for n in function.nodes if n.name in needed)
  return dataclasses.replace(function, nodes=nodes, control_results=())


def _made_by_tail(flat: Program, parts: Parts) -> list[TensorRef]:
  """Returns the results that the tail computes: those that the body does not pass on."""
  passed = {*parts.to_tail, *parts.past_body}
  return [result.ref for result in flat.function.results if result.ref not in passed]


def _tail(flat: Program, parts: Parts, program: Program, limits: Limits) -> Tail:
  order = [*parts.to_tail, *parts.past_body]
  passed = {ref: (False, position) for position, ref in enumerate(order)}
  made = {str(ref): (True, i) for i, ref in enumerate(dict.fromkeys(_made_by_tail(flat, parts)))}
  sources = tuple(passed.get(result.ref) or made[str(result.ref)] for result in flat.function.results)
  dtypes = tuple(parameter.dtype.base for parameter in program.function.parameters[: len(order)])
  return Tail(plan_host_function(program, limits), flat.outputs, sources, dtypes)


def _check(flat: Program, on_host: Collection[str]) -> None:
  """Raises one error that lists all that keeps nodes from running on the host."""
  found = host_obstacles(flat, on_host)
  check_files(flat, found)
  if found:
    advice = (
      "If this is before the numbers, let TensorFlow run it: SavedModel.split(..., run_head_with='tensorflow'). Or "
      "convert what comes after it with graftax.convert.convert_subgraph, and run the rest in TensorFlow."
    )
    remedy = "run_head_with='tensorflow'"
    if not CALLS_PYTHON.isdisjoint(found):
      advice = (
        "The Python functions are in no file, so that TensorFlow cannot run them from a file either. Convert what "
        "comes after them with graftax.convert.convert_subgraph, and run them yourself."
      )
      remedy = "graftax.convert.convert_subgraph, from the results of the Python function on"
    lines = []
    for what, places in found.items():
      reason = f" ({WITHOUT_HOST_FORM[what]})" if what in WITHOUT_HOST_FORM else ""
      lines.append(f"  {what} x{len(places)}: {places[0][0]!r} in {places[0][1]!r}{reason}")
    raise UnsupportedOpError(
      "\n".join(
        [
          f"{flat.name!r} cannot be split, because its host part needs what graftax does not implement:",
          *lines,
          advice,
        ]
      ),
      ops=[MissingOp(what, tuple(places), WITHOUT_HOST_FORM.get(what, ""), remedy) for what, places in found.items()],
    )


def _for_body(value: Value, known: bool) -> Leaf:
  """Returns a tensor of the host in the form in which it passes through `jit`."""
  if value.dtype == object:
    return PackedStrings.pack(value)
  if known:
    return KnownArray(value)
  if not fits_jax_dtype(value):
    return as_int64_pair(value)
  return value.astype(canonical_dtype(value.dtype), copy=False)


def _as_jax(tensor: Leaf) -> Leaf:
  # Traced even outside of `jit`, where shapes would otherwise depend on it.
  return jax.numpy.asarray(tensor) if isinstance(tensor, np.ndarray | np.generic) else tensor


def _for_host(value: Leaf, dtype: DType) -> Value:
  """Returns a tensor that the body returned, with the dtype that it has in TensorFlow if that is an integer type."""
  if isinstance(value, PackedStrings):
    return value.unpack()
  array = value.value if isinstance(value, KnownArray) else value
  is_integer = isinstance(array, jax.Array | np.ndarray) and array.dtype.kind in "iu"
  return np.asarray(array).astype(dtype.numpy) if is_integer and dtype.numpy.kind in "iu" else array


def _for_caller(value: Leaf) -> Leaf:
  if isinstance(value, PackedStrings):
    return value.unpack()
  return value.value if isinstance(value, KnownArray) else value
