"""Parameters in safetensors files: `write_safetensors` and `read_safetensors`."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.typing import DTypeLike

from graftax.graphdef_ir import GraftaxError, open_regular_file, optional_library
from graftax.savedmodel_io.errors import (
  CheckpointNotFoundError,
  CheckpointWriteError,
  OutputExistsError,
  ParameterFileError,
  TensorValueError,
)
from graftax.savedmodel_io.parameters.placement import Placement, placements
from graftax.savedmodel_io.parameters.values import array_of_numbers
from graftax.savedmodel_io.pytrees import Leaf
from graftax.savedmodel_io.variables.nesting import flat
from graftax.savedmodel_io.variables.sharding import Shardings, is_whole, place
from graftax.savedmodel_io.writing.atomic import check_new_file, new_file

__all__ = ["read_safetensors", "write_safetensors"]

_EXTRA = "graftax-savedmodel-io[safetensors]"
# In the header of a file, the key of text; a tensor of this name makes a file that safetensors does not read.
_METADATA = "__metadata__"
# The format has float8 as well, but safetensors 0.8 does not read that into NumPy or JAX.
_DTYPES = {
  "BOOL": "bool",
  "I8": "int8",
  "U8": "uint8",
  "I16": "int16",
  "U16": "uint16",
  "I32": "int32",
  "U32": "uint32",
  "I64": "int64",
  "U64": "uint64",
  "F16": "float16",
  "BF16": "bfloat16",
  "F32": "float32",
  "F64": "float64",
  "C64": "complex64",
}


def write_safetensors(
  path: str | os.PathLike[str],
  params: Mapping[str, Leaf],
  *,
  metadata: Mapping[str, str] | None = None,
  overwrite: bool = False,
) -> None:
  """Writes parameters to a safetensors file, which gets its name when it is complete.

  Memory-mapped arrays are written from the mapping, without a copy in memory.

  Args:
    path: the file; its folder must exist.
    params: name -> array, or nested dicts as `nest` returns them; names are written with slashes.
    metadata: free text for the header of the file.
    overwrite: replace a file of that name.

  Raises:
    LibraryNotFoundError: safetensors is not installed.
    TensorValueError: a value is not an array of numbers, or the format does not have its dtype or name.
    OutputExistsError: there is a file of that name.
    CheckpointWriteError: the disk is full, or the file cannot be written for another reason.
    MissingFolderError: a part of the path in front of the name is a file.

  Example:
      >>> import tempfile
      >>> path = os.path.join(tempfile.mkdtemp(), "params.safetensors")
      >>> write_safetensors(path, {"dense": {"kernel": np.ones((2, 3), np.float32)}})
      >>> read_safetensors(path)["dense/kernel"].shape
      (2, 3)
  """
  with optional_library("write_safetensors", _EXTRA):
    from safetensors import SafetensorError
    from safetensors.numpy import save_file
  target = Path(path)
  check_new_file(target)
  if target.exists() and not overwrite:
    raise OutputExistsError(f"{target} exists already; pass overwrite=True to replace it, or choose another name.")
  arrays = {name: _array(name, value) for name, value in flat(params).items()}
  with new_file(target) as scratch:
    try:
      save_file(arrays, scratch, dict(metadata or {}))
    except (SafetensorError, OSError) as e:
      raise CheckpointWriteError(
        f"{target}: cannot be written ({e}); nothing was put in place. Free some space, or choose another folder."
      ) from e


def _array(name: str, value: object) -> np.ndarray:
  if name == _METADATA:
    raise TensorValueError(f"parameter {name!r}: safetensors has this name for other things; rename the parameter.")
  value = array_of_numbers(name, value)
  if isinstance(value, jax.Array) and not value.is_fully_addressable:
    raise TensorValueError(
      f"parameter {name!r} is spread over several processes, and a safetensors file is written by one; use write_orbax."
    )
  # safetensors writes nbytes from the address of the first element, whatever the strides are.
  array = np.asarray(value, order="C")
  if array.dtype.name not in _DTYPES.values():
    raise TensorValueError(
      f"parameter {name!r} has dtype {array.dtype.name}, which safetensors cannot hold; it can hold "
      f"{', '.join(_DTYPES.values())}."
    )
  return array


def read_safetensors(
  path: str | os.PathLike[str],
  *,
  dtype: DTypeLike | None = None,
  keep: str | Iterable[str] = (),
  sharding: Shardings = None,
) -> dict[str, Leaf]:
  """Returns the parameters in a safetensors file, by name; `nest` returns them as nested dicts.

  Args:
    path: the file.
    dtype: the type to read real numbers in, as for `load`.
    keep: patterns of names that keep their own type.
    sharding: the devices to place parameters on, as for `load`: they are then `jax.Array`s, and each process reads
      only what its devices hold. By default they are NumPy arrays.

  Raises:
    LibraryNotFoundError: safetensors is not installed.
    CheckpointNotFoundError: there is no such file.
    ParameterFileError: the file is damaged or something else, or has a dtype that cannot be read.
    CastError, ShardingError: the arguments contradict themselves or the file.

  Example:
    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "params.safetensors")
    >>> write_safetensors(path, {"dense/kernel": np.ones((2, 3), np.float32)})
    >>> read_safetensors(path, dtype="bfloat16")["dense/kernel"].dtype
    dtype(bfloat16)
  """
  with optional_library("read_safetensors", _EXTRA):
    from safetensors import SafetensorError, safe_open
  where = os.fspath(path)
  try:
    if not os.path.isdir(where):
      open_regular_file(where, "read_safetensors").close()  # a named pipe would wait
    with safe_open(where, framework="numpy") as file:
      slices = {name: file.get_slice(name) for name in file.keys()}
      stored = {name: (tuple(part.get_shape()), _dtype(name, part, where)) for name, part in slices.items()}
      wanted = placements(stored, dtype, keep, sharding, where)
      return {name: _read(name, file, slices[name], placement) for name, placement in wanted.items()}
  except FileNotFoundError as e:
    raise CheckpointNotFoundError(f"{where}: no such file; expected a safetensors file") from e
  except GraftaxError:
    raise
  except (SafetensorError, OSError, ValueError, OverflowError) as e:  # NumPy does not have all shapes
    raise ParameterFileError(f"{where}: not a safetensors file, or a damaged one: {e}") from e


def _dtype(name: str, part: Any, where: str) -> np.dtype:
  stored = part.get_dtype()
  if stored not in _DTYPES:
    raise ParameterFileError(
      f"{where}: parameter {name!r} has dtype {stored}, which safetensors does not read into NumPy; it reads "
      f"{', '.join(_DTYPES)}."
    )
  return jax.numpy.dtype(_DTYPES[stored])


def _read(name: str, file: Any, part: Any, placement: Placement) -> np.ndarray | jax.Array:
  if placement.sharding is None:
    return file.get_tensor(name).astype(placement.dtype, copy=False)

  def read_box(region: tuple[slice, ...]) -> np.ndarray:
    box = file.get_tensor(name) if is_whole(region, placement.shape) else part[region]
    return box.astype(placement.dtype, copy=False)

  return place(name, placement.shape, placement.dtype, placement.sharding, read_box)
