"""The dtype and the devices of parameters that are read from files of other libraries."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from jax.sharding import Sharding
from jax.typing import DTypeLike

from graftax.graphdef_ir import DType, GraftaxError
from graftax.savedmodel_io.errors import ParameterFileError
from graftax.savedmodel_io.variables.casting import VariableCast, variable_cast
from graftax.savedmodel_io.variables.sharding import ChooseSharding, Shardings, device_dtype, sharding_choice

__all__ = ["Placement", "placements"]


@dataclass(frozen=True, slots=True)
class Placement:
  """How one parameter is read.

  Attributes:
    shape: its shape.
    dtype: the type to read it in.
    sharding: its devices; None for a NumPy array.
  """

  shape: tuple[int, ...]
  dtype: np.dtype
  sharding: Sharding | None


def placements(
  stored: Mapping[str, tuple[tuple[int, ...], np.dtype]],
  dtype: DTypeLike | None,
  keep: str | Iterable[str],
  sharding: Shardings,
  where: str,
) -> dict[str, Placement]:
  """Returns how to read each parameter, with the arguments of `graftax.savedmodel_io.load`.

  Args:
    stored: name -> shape and dtype in the file.
    dtype: the type for real numbers.
    keep: patterns of names that keep their type.
    sharding: the devices.
    where: the file, for messages.

  Raises:
    CastError, ShardingError: the arguments contradict themselves or the file.
    ParameterFileError: the file has a dtype that we do not know.
  """
  cast = variable_cast(dtype, keep)
  if cast is not None:
    cast.check_patterns(stored)
  choose = sharding_choice(sharding, stored)
  return {
    name: _placement(name, shape, stored_dtype, cast, choose, where) for name, (shape, stored_dtype) in stored.items()
  }


def _placement(
  name: str,
  shape: tuple[int, ...],
  stored: np.dtype,
  cast: VariableCast | None,
  choose: ChooseSharding | None,
  where: str,
) -> Placement:
  try:
    known = DType.from_numpy(stored)
  except GraftaxError as e:
    raise ParameterFileError(f"{where}: parameter {name!r} is {stored}: {e}") from e
  target = None if cast is None else cast.target(name, known)
  on_device = device_dtype(known, target)
  sharding = None if choose is None or on_device is None else choose(name, shape)
  if sharding is None or on_device is None:
    return Placement(shape, stored if target is None else target, None)
  return Placement(shape, on_device, sharding)
