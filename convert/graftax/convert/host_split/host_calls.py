"""`HostParts`: head and tail of a program whose numeric part is somewhere else, such as in source."""

import dataclasses
import inspect
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from graftax.convert.errors import ConversionError, InputError
from graftax.convert.host_parts.parts import find_parts
from graftax.convert.host_split.host_arrays import ONE_MORE, HostArray, result_names
from graftax.convert.host_split.host_function import HostFunction, plan_host_function
from graftax.convert.host_split.split import Head, Split, Tail
from graftax.convert.program import Program, StringVariable
from graftax.convert.pytrees import Leaf, PyTree
from graftax.convert.structures.nested import InputStructure
from graftax.convert.subgraph import inlined
from graftax.graphdef_ir import DType, Limits, Node, Parameter, Result, TensorRef, traits_of
from graftax.ops_jax import Value

__all__ = ["HostParts", "host_nodes", "host_parts"]

_ADVICE = "Write the numeric part again, with examples of such inputs."
_NARROW = {"int64": "int32", "uint64": "uint32", "float64": "float32", "complex128": "complex64"}


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class HostParts:
  """The parts of a program that run on the host, without TensorFlow, around a numeric part that is somewhere else.

  Attributes:
    before: computes arrays for the numeric part.
    after: computes the results of the program.
    arrays: the arrays that the numeric part was made for.
    results: the names of the results of the numeric part.
  """

  before: Head
  after: Tail
  arrays: tuple[HostArray, ...]
  results: tuple[str, ...]

  def __repr__(self) -> str:
    return f"HostParts({self.before.name!r}, {[array.name for array in self.arrays]} -> {list(self.results)})"

  def head(self, /, *args: PyTree, **kwargs: PyTree) -> tuple[tuple[np.ndarray, ...], tuple[PyTree, ...]]:
    """Returns the arrays for the numeric part, and what the tail takes besides its results.

    Args:
      *args: the arguments of the program. Strings are `str`, `bytes`, or lists or arrays of them.
      **kwargs: the same by name.

    Raises:
      InputError: the arguments do not fit the signature, or the numeric part was not made for the arrays of these.
      InvalidInputError: a value is malformed, as it would be in TensorFlow.
    """
    values = self.before.values(*args, **kwargs)
    sizes: dict[str, int] = {}
    count = len(self.arrays)
    pairs = list(zip(values[:count], self.arrays, strict=True))
    given = tuple(self._checked(value, array, sizes) for value, array in pairs if array.value is None)
    for value, array in pairs:
      if array.value is not None:
        self._check_known(value, array, sizes)
    return given, tuple(values[count:])

  def tail(self, results: Mapping[str, Leaf], rest: Sequence[Leaf]) -> PyTree:
    """Returns the results of the program. Strings are arrays of `bytes`.

    Args:
      results: the results of the numeric part by name.
      rest: the second result of `head`.

    Raises:
      InputError: a result is missing.
    """
    missing = [name for name in self.results if name not in results]
    if missing:
      raise InputError(f"{self.before.name}: the results {missing} are missing; the tail takes {list(self.results)}.")
    return self.after(([*(results[name] for name in self.results), *rest], {}))

  @property
  def ops(self) -> dict[str, tuple[str, ...]]:
    """The names of TensorFlow's ops that only the host runs, by "head" and "tail"."""
    nodes = host_nodes(self.before.function, self.after.function)
    return {part: tuple(sorted({node.op for node in found})) for part, found in nodes.items()}

  def programs(self) -> tuple[Program, Program]:
    """Returns head and tail as programs, from which `from_programs` makes them again.

    Raises:
      ConversionError: TensorFlow runs the head.
    """
    function = self.before.function
    if not isinstance(function, HostFunction):
      raise ConversionError(f"{self.before.name}: TensorFlow runs the head; split the program without it.")
    head = dataclasses.replace(function.program, name="head", inputs=self.before.inputs)
    return _with_known_strings(head), _with_known_strings(self._tail_program())

  @classmethod
  def from_programs(
    cls,
    head: Program,
    tail: Program,
    arrays: Sequence[HostArray],
    results: Sequence[str],
    *,
    limits: Limits | None = None,
  ) -> "HostParts":
    """Returns the parts that `programs` gave.

    Args:
      head: the first program.
      tail: the second one.
      arrays: those of the parts.
      results: likewise.
      limits: how much memory and time a call may need; by default the option `limits`.

    Raises:
      UnsupportedOpError: an op cannot run on the host.
      ConversionError: the programs do not fit the arrays and results.
    """
    num_given, num_taken = len(head.function.results), len(tail.inputs.arguments)
    if num_given < len(arrays) or num_given - len(arrays) + len(results) != num_taken:
      raise ConversionError(
        f"head and tail do not fit: the head has {num_given} results for {len(arrays)} arrays, and the tail "
        f"{num_taken} inputs for {len(results)} results of the numeric part."
      )
    if len(set(results)) < len(results):
      raise ConversionError("head and tail do not fit: several results of the numeric part have one name.")
    for array, result in zip(arrays, head.function.results, strict=False):
      if not _may_be(result.dtype.base, array.dtype):
        raise ConversionError(
          f"head and tail do not fit: the head computes {result.dtype.tf_name} for {array.name!r:.80}, {array.dtype}."
        )
    before = Head(plan_host_function(head, limits), head.inputs, head.name, (False,) * num_given)
    dtypes = tuple(spec.dtype.base for spec in tail.inputs.specs)
    after = Tail(plan_host_function(tail, limits), tail.outputs, tuple(_sources(tail)), dtypes)
    return cls(before, after, tuple(arrays), tuple(results))

  def _tail_program(self) -> Program:
    """Returns the tail with all results, also those that it takes and returns as they are."""
    program = self.after.function.program
    parameters = program.function.parameters
    results = [
      program.function.results[i]
      if on_host
      else Result(f"given_{i}", TensorRef(parameters[i].name), parameters[i].dtype)
      for on_host, i in self.after.sources
    ]
    named = [dataclasses.replace(result, name=f"result_{i}") for i, result in enumerate(results)]
    names = [f"result_{i}" for i in range(len(self.results))]
    names += [f"rest_{i}" for i in range(len(self.after.dtypes) - len(self.results))]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    inputs = InputStructure(
      program.inputs.specs, {}, inspect.Signature([inspect.Parameter(name, kind) for name in names])
    )
    return dataclasses.replace(
      program,
      name="tail",
      function=dataclasses.replace(program.function, results=tuple(named)),
      inputs=inputs,
      outputs=self.after.outputs,
    )

  def _checked(self, value: Value, array: HostArray, sizes: dict[str, int]) -> np.ndarray:
    """Returns a value with the dtype of an array, if it fits."""
    found = np.asarray(value)
    if not _fits(found.shape, array.shape, sizes):
      of = f" with {sizes}" if sizes else ""
      raise InputError(
        f"{self.before.name}: the head computes {array.name!r} with the shape {_shape(found.shape)}, and the numeric "
        f"part was made for {_shape(array.shape)}{of}. {_ADVICE}"
      )
    if any(isinstance(wanted, str) and sizes[_name(wanted)] < 1 for wanted in array.shape):
      raise InputError(
        f"{self.before.name}: the head computes {array.name!r} with the shape {_shape(found.shape)}, and open sizes of "
        f"the numeric part, {_shape(array.shape)}, are at least 1. Pass inputs that are not empty."
      )
    dtype = np.dtype(array.dtype)
    cast = found.astype(dtype, copy=False)
    if found.dtype.kind in "iu" and not np.array_equal(cast, found):
      raise InputError(
        f"{self.before.name}: the head computes integers for {array.name!r} that {dtype} does not hold. Write the "
        "numeric part again with jax_enable_x64."
      )
    return cast

  def _check_known(self, value: Value, array: HostArray, sizes: dict[str, int]) -> None:
    """Raises if a value is not the one that the numeric part was made for."""
    found, wanted = np.ravel(np.asarray(value)).tolist(), array.value or ()
    if (
      np.shape(value) != array.shape
      or not _fits(found, wanted, sizes)
      or any(isinstance(size, str) and sizes[_name(size)] < 1 for size in wanted)
    ):
      raise InputError(
        f"{self.before.name}: the head computes {found} for {array.name!r}, on which shapes depend, and the numeric "
        f"part was made for {_shape(wanted)}. {_ADVICE}"
      )


def host_parts(split: Split, arrays: Sequence[HostArray]) -> HostParts:
  """Returns the head and the tail of a split program.

  Args:
    split: the program.
    arrays: the arrays that its numeric part is made for.
  """
  return HostParts(split.head, split.tail, tuple(arrays), tuple(result_names(split)))


def host_nodes(head: object, tail: object) -> dict[str, list[Node]]:
  """Returns the nodes that only the host runs, by "head" and "tail"; none of what TensorFlow runs."""
  found: dict[str, list[Node]] = {}
  for part, function in (("head", head), ("tail", tail)):
    if isinstance(function, HostFunction):
      program = function.program
      flat = dataclasses.replace(program, function=inlined(program))
      on_host = find_parts(flat, flat.function).on_host
      found[part] = [node for node in flat.function.nodes if node.name in on_host]
  return found


def _with_known_strings(program: Program) -> Program:
  """Returns a program with constants in place of variables of strings that it only reads; SavedModels have none."""
  start = len(program.function.parameters) - len(program.captures)
  pairs = list(zip(program.function.parameters[start:], program.captures, strict=True))
  nodes = list(program.function.nodes)
  for i, (parameter, capture) in enumerate(pairs):
    readers = [n for n in nodes if any(ref.node == parameter.name for ref in n.inputs)]
    if isinstance(capture, StringVariable) and all(node.op == "ReadVariableOp" for node in readers):
      pairs[i] = (Parameter(parameter.name, DType.STRING), capture.value)
      names = {node.name for node in readers}
      nodes = [Node(n.name, "Identity", n.inputs, attrs={"T": DType.STRING}) if n.name in names else n for n in nodes]
  parameters = (*program.function.parameters[:start], *(parameter for parameter, _ in pairs))
  function = dataclasses.replace(program.function, parameters=parameters, nodes=tuple(nodes))
  return dataclasses.replace(program, function=function, captures=tuple(capture for _, capture in pairs))


def _may_be(given: DType, name: str) -> bool:
  """Returns whether an array of a dtype of JAX is made of values of a dtype of TensorFlow, with or without 64 bits."""
  if given is DType.INVALID:
    return True  # not known
  is_number = given not in (DType.STRING, DType.RESOURCE, DType.VARIANT)
  return is_number and name in (given.numpy.name, _NARROW.get(given.numpy.name))


def _name(size: str) -> str:
  return size.removesuffix(ONE_MORE)


def _fits(found: Sequence[int], wanted: Sequence[int | str], sizes: dict[str, int]) -> bool:
  """Returns whether numbers are the ones that are wanted; adds the numbers of names."""
  if len(found) != len(wanted):
    return False
  for number, size in zip(found, wanted, strict=True):
    if isinstance(size, str):
      number -= size.endswith(ONE_MORE)
      size = sizes.setdefault(_name(size), number)
    if number != size:
      return False
  return True


def _shape(shape: Sequence[int | str]) -> str:
  return f"[{', '.join(map(str, shape))}]"


def _sources(tail: Program) -> Iterator[tuple[bool, int]]:
  """Yields for each result of a tail whether it is computed, and its position, or that of the input that it is."""
  function = inlined(tail)
  nodes = {node.name: node for node in function.nodes}
  positions = {parameter.name: i for i, parameter in enumerate(function.parameters[: len(tail.inputs.specs)])}
  for i, result in enumerate(function.results):
    ref = result.ref
    while ref.node in nodes and traits_of(nodes[ref.node].op).is_alias and len(nodes[ref.node].inputs) == 1:
      ref = nodes[ref.node].inputs[0]
    yield (False, positions[ref.node]) if ref.node in positions else (True, i)
