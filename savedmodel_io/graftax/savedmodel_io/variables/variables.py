"""The variables of a SavedModel: names, tensors of the checkpoint, and values, which are read on access."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import EllipsisType

import jax
import numpy as np

from graftax.graphdef_ir import DType, PartialShape, Tensor
from graftax.savedmodel_io.checkpoint.read_options import Report
from graftax.savedmodel_io.checkpoint.reader import CheckpointReader
from graftax.savedmodel_io.checkpoint.tensor_slice import TensorSlice
from graftax.savedmodel_io.errors import DamagedSavedModelError, UnknownNameError
from graftax.savedmodel_io.objects.spec_text import listed
from graftax.savedmodel_io.variables.casting import VariableCast
from graftax.savedmodel_io.variables.sharding import Shardings, device_dtype, is_whole, place, sharding_choice

__all__ = ["VariableInfo", "Variables", "with_unique_names"]


@dataclass(frozen=True, slots=True)
class VariableInfo:
  """A variable, and which tensor of the checkpoint holds its value.

  Attributes:
    name: its key in `Variables`: TensorFlow's name, made unique.
    tf_name: TensorFlow's name without ":0", which several variables may share.
    dtype: element type.
    shape: its shape; dimensions may be unknown.
    trainable: whether TensorFlow trains it.
    path: attribute names from the saved object to it, shortest way; () in a TF1 model.
    node_id: its object in the object graph; None in a TF1 model.
    graph_node: its VariableV2 or VarHandleOp node in a TF1 model's graph; None otherwise.
    checkpoint_key: the tensor of the checkpoint that holds its value; None if there is none.
    part: the part of that tensor, for a piece of a partitioned variable.
    initial_value: what it starts from if the checkpoint does not have it.
  """

  name: str
  tf_name: str
  dtype: DType
  shape: PartialShape
  trainable: bool
  path: tuple[str, ...] = ()
  node_id: int | None = None
  graph_node: str | None = None
  checkpoint_key: str | None = None
  part: TensorSlice | None = None
  initial_value: Tensor | None = None

  @property
  def has_value(self) -> bool:
    """Whether the saved files hold a value for it."""
    return self.checkpoint_key is not None or self.initial_value is not None


class Variables(Mapping[str, np.ndarray | jax.Array]):
  """Variable name -> value, read-only. Numeric values stored whole are views of the memory-mapped checkpoint.

  Values that `load` was asked to cast or to place on devices are read each time they are asked for. Those on devices
  are `jax.Array`s, all others `numpy.ndarray`s.

  Example:
    >>> import os
    >>> from graftax.savedmodel_io import load
    >>> model = load(os.path.join(os.path.dirname(__file__), "../testdata/2026_11_21/keras_export"))
    >>> model.variables["sequential/head/bias"].shape
    (1,)

  Attributes:
    infos: name -> what is known about the variable, without touching its value; includes those without a value.
  """

  infos: Mapping[str, VariableInfo]

  def __init__(
    self,
    infos: Iterable[VariableInfo],
    reader: CheckpointReader | None,
    cast: VariableCast | None = None,
    sharding: Shardings = None,
    *,
    verify_shards: bool = False,
  ):
    self.infos = {info.name: info for info in infos}
    self._names = tuple(info.name for info in self.infos.values() if info.has_value)
    self._reader = reader
    self._cast = cast
    self._verify_shards = verify_shards
    if cast is not None:
      cast.check_patterns(self.infos)
    self._choose_sharding = sharding_choice(sharding, self.infos)
    for name in self._names:
      _check_entry(self.infos[name], reader)

  def info(self, name: str) -> VariableInfo:
    """Returns the record of one variable.

    Raises:
      UnknownNameError: there is no such variable.
    """
    if name not in self.infos:
      raise UnknownNameError(f"no variable {name!r}; {listed(name, self.infos)}")
    return self.infos[name]

  def read(self, name: str, region: tuple[slice, ...] | None = None, *, verify: bool | None = None) -> np.ndarray:
    """Returns the value of a variable, or a box of it.

    Args:
      name: the variable.
      region: one slice of step 1 per dimension; None reads all.
      verify: check the checksum of the tensor on its first read; None follows `load`.

    Raises:
      UnknownNameError: there is no such variable.
      DamagedSavedModelError: nothing was saved for it.
      DamagedCheckpointError: the checkpoint is damaged.
    """
    info = self.info(name)
    return self._read(info, region, self._cast_dtype(info), verify=verify)

  def value(self, name: str, report: Report | None = None) -> np.ndarray | jax.Array:
    """Returns the value of a variable, as `variables[name]` does.

    Args:
      name: the variable.
      report: called with the number of bytes of each piece of a large variable, when it was read.

    Raises:
      UnknownNameError: there is no such variable.
      DamagedSavedModelError: nothing was saved for it.
      DamagedCheckpointError: the checkpoint is damaged.
      ShardingError: the sharding does not fit its shape.
    """
    info = self.info(name)
    dtype = device_dtype(info.dtype.base, self._cast_dtype(info)) if info.has_value else None
    shape = self._shape(info)
    sharding = None if self._choose_sharding is None or dtype is None else self._choose_sharding(name, shape)
    if sharding is None or dtype is None:
      return self._read(info, None, self._cast_dtype(info), report=report)

    def read_shard(region: tuple[slice, ...]) -> np.ndarray:
      verify = None if is_whole(region, shape) or self._verify_shards else False
      return self._read(info, region, dtype, verify=verify, copy=True, report=report)

    def read_ahead(region: tuple[slice, ...]) -> None:
      if info.checkpoint_key is not None and self._reader is not None:
        self._reader.read_ahead(info.checkpoint_key, _tensor_region(info, self._reader, region))

    return place(name, shape, dtype, sharding, read_shard, read_ahead)

  def _read(
    self,
    info: VariableInfo,
    region: tuple[slice, ...] | None,
    dtype: np.dtype | None,
    *,
    verify: bool | None = None,
    copy: bool = False,
    report: Report | None = None,
  ) -> np.ndarray:
    if info.checkpoint_key is not None and self._reader is not None:
      if region is None and info.part is None:
        return self._reader.read(info.checkpoint_key, verify=verify, dtype=dtype, report=report)
      box = _tensor_region(info, self._reader, region)
      return self._reader.read_region(info.checkpoint_key, box, verify=verify, dtype=dtype, copy=copy, report=report)
    if info.initial_value is not None:
      value = info.initial_value.numpy()
      value = value if dtype is None else value.astype(dtype, copy=False)
      index: tuple[slice | EllipsisType, ...] = (*(region or ()), ...)
      return value[index]
    raise DamagedSavedModelError(f"variable {info.name!r}: the checkpoint holds no value for it")

  def _cast_dtype(self, info: VariableInfo) -> np.dtype | None:
    return None if self._cast is None else self._cast.target(info.name, info.dtype)

  def __getitem__(self, name: str) -> np.ndarray | jax.Array:
    return self.value(name)

  def _shape(self, info: VariableInfo) -> tuple[int, ...]:
    if info.checkpoint_key is None or self._reader is None:
      return () if info.initial_value is None else info.initial_value.numpy().shape
    shape = self._reader.shape(info.checkpoint_key)
    return shape if info.part is None else tuple(stop - start for start, stop in info.part.bounds(shape))

  def size_bytes(self, name: str) -> int:
    """Returns how many bytes the value has in the saved files; 0 for strings, and if nothing was saved."""
    info = self.info(name)
    is_number = info.has_value and info.dtype.base != DType.STRING
    return math.prod(self._shape(info)) * info.dtype.base.numpy.itemsize if is_number else 0

  def __contains__(self, name: object) -> bool:
    return name in self.infos and self.infos[str(name)].has_value

  def __iter__(self) -> Iterator[str]:
    return iter(self._names)

  def __len__(self) -> int:
    return len(self._names)

  def __repr__(self) -> str:
    return f"Variables({len(self)} of them: {', '.join(self._names[:5])}{', ...' if len(self) > 5 else ''})"


def with_unique_names(infos: Iterable[VariableInfo], first: Iterable[int] = ()) -> list[VariableInfo]:
  """Returns the same variables, in the same order, each with a unique `name`.

  The first of several variables with one TensorFlow name keeps it, the next ones get `_1`, `_2`, ... as in TF2JAX,
  passing over names that are taken. Variables without a name are named by their path. Variables in `first` are named
  before all others, each group in the order of `infos`. So names do not depend on the function that is converted.

  Args:
    infos: the variables; their `name` is ignored.
    first: node ids of variables that functions use; copies that no function uses get the later names.
  """
  ordered = list(infos)
  preferred = frozenset(first)
  by_priority = sorted(range(len(ordered)), key=lambda i: (ordered[i].node_id not in preferred, i))
  taken = {info.tf_name for info in ordered if info.tf_name}
  given: set[str] = set()
  next_number: dict[str, int] = {}
  for i in by_priority:
    base = ordered[i].tf_name or "/".join(ordered[i].path) or "variable"
    name = base
    while name in given or (name in taken and name != ordered[i].tf_name):
      next_number[base] = next_number.get(base, 0) + 1
      name = f"{base}_{next_number[base]}"
    given.add(name)
    ordered[i] = replace(ordered[i], name=name)
  return ordered


def _check_entry(info: VariableInfo, reader: CheckpointReader | None) -> None:
  """Checks that the checkpoint's tensor fits the variable; otherwise graph and checkpoint are of different models."""
  if info.checkpoint_key is None:
    return
  if reader is None:
    raise DamagedSavedModelError(f"variable {info.name!r}: the model has no checkpoint")
  if info.checkpoint_key not in reader:
    raise DamagedSavedModelError(
      f"variable {info.name!r}: the checkpoint has no tensor {info.checkpoint_key!r}, which its own object graph names"
    )
  entry = reader.entry(info.checkpoint_key)
  shape = entry.shape
  if info.part is not None:
    try:
      shape = tuple(stop - start for start, stop in info.part.bounds(shape))
    except ValueError as e:
      raise DamagedSavedModelError(f"variable {info.name!r}: {e}") from e
  if entry.dtype != info.dtype.base or not info.shape.is_compatible_with(shape):
    raise DamagedSavedModelError(
      f"variable {info.name!r} is {info.dtype.base.tf_name} {info.shape}, but the checkpoint's tensor "
      f"{info.checkpoint_key!r} is {entry.dtype.tf_name} {list(shape)}; graph and checkpoint are of different models"
    )


def _tensor_region(info: VariableInfo, reader: CheckpointReader, region: tuple[slice, ...] | None) -> tuple[slice, ...]:
  """Returns the region of the checkpoint's tensor that holds a region of the variable; None is all of it."""
  if info.checkpoint_key is None:
    raise AssertionError(f"internal: variable {info.name!r} has no tensor")
  if info.part is None:
    return region or ()
  bounds = info.part.bounds(reader.shape(info.checkpoint_key))
  if region is None:
    return tuple(slice(*bound) for bound in bounds)
  if len(region) != len(bounds):
    return region  # the reader says what is wrong
  offsets = [(start, *part.indices(stop - start)) for (start, stop), part in zip(bounds, region, strict=True)]
  return tuple(slice(start + low, start + max(low, high), step) for start, low, high, step in offsets)
