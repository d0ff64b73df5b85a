"""The arrays that the head of a split program computes for a numeric part, with the sizes that are open."""

import dataclasses
import itertools
import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
import tree

from graftax.convert.errors import ConversionError
from graftax.convert.host_split.host_function import HostFunction
from graftax.convert.host_split.split import Split
from graftax.convert.pytrees import Leaf, PyTree
from graftax.convert.structures.nested import InputStructure, OutputStructure, leaf_specs
from graftax.graphdef_ir import GraftaxError, TensorSpec
from graftax.ops_jax import Value, canonical_dtype, fits_jax_dtype

__all__ = ["ONE_MORE", "HostArray", "OpenSizes", "examined_arrays", "result_names"]

ONE_MORE = "+1"
"""The end of the name of a size that is one more than another one."""

# Values that are fixed in the numeric part have at most this many elements.
_MAX_FIXED = 1024
_CALLS = re.compile(r"(?i)^((stateful)?partitionedcall|identity|readvariableop)(_\d+)?$")


OpenSizes = Literal["each", "equal", "batch", "none"]
"""Which sizes may be open: each by itself, those that are equal in all runs as one, the number of inputs, or none."""


@dataclasses.dataclass(frozen=True, slots=True)
class HostArray:
  """An array that the head computes for the numeric part.

  Attributes:
    name: what the numeric part calls it.
    dtype: the name of the dtype in which the numeric part takes it.
    shape: sizes. A name is a size that is open; sizes of one name are equal, and "batch+1" is one more.
    value: if shapes in the numeric part depend on the value, the integers that it was made for, as in `shape`.
  """

  name: str
  dtype: str
  shape: tuple[int | str, ...]
  value: tuple[int | str, ...] | None = None


def examined_arrays(
  split: Split, args: Sequence[PyTree], kwargs: Mapping[str, PyTree], *, open_sizes: OpenSizes
) -> tuple[HostArray, ...]:
  """Returns the arrays that the head computes for the numeric part.

  The head runs on the example inputs, on twice as many, and on the first and the last one alone, if the signature
  leaves their number open. Sizes that differ are open.

  Args:
    split: a split program.
    args: example inputs.
    kwargs: the same by name.
    open_sizes: which sizes may be open. The others are those of the examples.

  Raises:
    ConversionError: an array holds strings, or integers that JAX does not have.
    InputError: the examples do not fit the signature.
  """
  inputs, flat = split.head.inputs, split.head.flat_inputs(*args, **kwargs)
  count = split.body.num_inputs
  runs, batch = [list(split.head.function(flat))[:count]], [_batch(flat, inputs)]
  for variant in _variants(flat, inputs) if open_sizes != "none" else ():
    try:
      runs.append(list(split.head.function(variant))[:count])
      batch.append(_batch(variant, inputs))
    except GraftaxError:
      continue  # such as inputs whose number is fixed elsewhere
  symbols = {tuple(size for size in batch if size is not None): "batch"}
  return _arrays(split, runs, symbols, open_sizes)


def result_names(split: Split) -> list[str]:
  """Returns the names of the results of the numeric part: of a result of the program, or of the layer that makes it."""
  num_results = len(split.tail.dtypes) - (len(split.head.known) - split.body.num_inputs)
  names: dict[int, str] = {}
  for path, (on_host, position) in zip(_output_names(split.tail.outputs), split.tail.sources, strict=True):
    if not on_host and position < num_results:
      names.setdefault(position, path)
  parameters = split.tail.function.program.function.parameters
  found: list[str] = []
  for i in range(num_results):
    found.append(_free(names.get(i) or _snake(_parts(parameters[i].name)[-1], "result"), found))
  return found


def _arrays(
  split: Split, runs: Sequence[Sequence[Value]], symbols: dict[tuple[int, ...], str], open_sizes: OpenSizes
) -> tuple[HostArray, ...]:
  """Returns descriptions of arrays that were computed in several runs; sizes of the runs with a symbol are open."""

  def size(sizes: tuple[int, ...]) -> int | str:
    if len(set(sizes)) == 1:
      return sizes[0]
    # Such as the row splits of a ragged tensor.
    one_less = tuple(size - 1 for size in sizes)
    if sizes not in symbols and one_less in symbols:
      return f"{symbols[one_less]}{ONE_MORE}"
    if open_sizes == "each" and sizes not in symbols:
      return f"size_{next(numbers)}"
    if open_sizes == "equal":
      return symbols.setdefault(sizes, f"size_{len(symbols)}")
    return symbols.get(sizes, sizes[0])

  numbers = itertools.count(1)
  count = split.body.num_inputs
  arrays: list[HostArray] = []
  for name, is_known, *values in zip(_array_names(split, count), split.head.known[:count], *runs, strict=True):
    found = [np.asarray(value) for value in values]
    first = found[0]
    where = f"{split.head.name}: {name!r}"
    if first.dtype == object:
      raise ConversionError(f"{where}, which the numeric part reads, is an array of strings.")
    if not fits_jax_dtype(first):
      raise ConversionError(f"{where} has integers of 64 bits; set jax_enable_x64.")
    if is_known and (first.size > _MAX_FIXED or first.dtype.kind not in "iu"):
      raise ConversionError(f"{where}: shapes depend on {first.size} values, {first.dtype}.")
    if len({value.ndim for value in found}) > 1:
      found = found[:1]
    shape = tuple(map(size, zip(*(value.shape for value in found), strict=True)))
    known = None
    if is_known:
      # Runs with another number of values are as runs with another value: the array is fixed.
      flat = [tuple(value.ravel().tolist()) for value in found if value.shape == first.shape]
      known = tuple(map(size, zip(*flat, strict=True))) if len(flat) == len(values) else flat[0]
      shape = first.shape
    arrays.append(HostArray(name, canonical_dtype(first.dtype).name, shape, known))
  return tuple(arrays)


def _variants(flat: Sequence[Leaf], inputs: InputStructure) -> Iterator[list[Leaf]]:
  """Yields other inputs: each twice, and the first and the last one alone."""
  is_open = _open(inputs)
  if not any(is_open):
    return
  arrays = [np.asarray(value) if o else value for value, o in zip(flat, is_open, strict=True)]
  yield [np.concatenate([value, value]) if o else value for value, o in zip(arrays, is_open, strict=True)]
  for one in (slice(1), slice(-1, None)):
    yield [value[one] if o else value for value, o in zip(arrays, is_open, strict=True)]


def _open(inputs: InputStructure) -> list[bool]:
  """Returns whether the first size of each flat input is open; rows of composite tensors are not."""
  found: list[bool] = []
  for leaf in tree.flatten((inputs.args, dict(inputs.kwargs))):
    specs = leaf_specs(leaf)
    found += [isinstance(leaf, TensorSpec) and bool(s.shape.dims) and (s.shape.dims or (0,))[0] is None for s in specs]
  return found


def _batch(flat: Sequence[Leaf], inputs: InputStructure) -> int | None:
  sizes = [np.shape(value)[0] for value, is_open in zip(flat, _open(inputs), strict=True) if is_open]
  return sizes[0] if sizes else None


def _array_names(split: Split, count: int) -> list[str]:
  """Returns names of arrays: of an input, or of the layer that computes the array."""
  function = split.head.function
  assert isinstance(function, HostFunction)
  program = function.program
  arguments = list(split.head.inputs.arguments)
  start = len(program.function.parameters) - len(program.captures)
  parameters = [parameter.name for parameter in program.function.parameters[:start]]
  own = dict(zip(parameters, arguments, strict=True)) if len(arguments) == len(parameters) else {}
  names: list[str] = []
  for result in program.function.results[:count]:
    node = result.ref.node
    name = own.get(node) or re.sub(r"_\d+$", "", _parts(node)[0])
    names.append(_free(_snake(name, "x"), names))
  return names


def _output_names(outputs: OutputStructure) -> Iterator[str]:
  """Yields a name for each flat result; "" for one without."""
  for path, leaf in tree.flatten_with_path(outputs.nested):
    specs = leaf_specs(leaf)
    name = path[-1] if path and isinstance(path[-1], str) and len(specs) == 1 else ""
    yield from (name for _ in specs)


def _parts(node: str) -> list[str]:
  parts = [part for part in node.split("/") if not _CALLS.match(part)]
  return parts or [node]


def _snake(name: str, default: str) -> str:
  name = re.sub(r"\W", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)).lower().strip("_")
  return name if name.isidentifier() and not keyword.iskeyword(name) else f"{default}_{name}".rstrip("_")


def _free(name: str, taken: Sequence[str]) -> str:
  number, free = 2, name
  while free in taken:
    free, number = f"{name}_{number}", number + 1
  return free
