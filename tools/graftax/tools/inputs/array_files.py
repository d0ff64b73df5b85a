"""Reads input arrays from .npy and .npz files, and writes results to them."""

import re
import zipfile
import zlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from graftax.graphdef_ir import DType, TensorSpec
from graftax.savedmodel_io.errors import OutputExistsError
from graftax.savedmodel_io.writing.atomic import check_new_file, new_file
from graftax.tools.errors import ArrayFileError
from graftax.tools.inputs.string_files import as_strings, holds_strings, read_strings

__all__ = ["check_output_path", "fit_to_spec", "read_inputs", "save_outputs"]


def read_inputs(arguments: Sequence[str], text: Collection[str] = ()) -> dict[str, np.ndarray]:
  """Returns arrays by input name.

  Args:
    arguments: each `name=file.npy`, `name=file.npz:key`, or `file.npz`, whose keys are input names. For inputs of
      strings also `name=file.txt`, whose lines are strings, or any other file, which is one string. Several such files
      are joined.
    text: names of the inputs of strings.

  Raises:
    ArrayFileError: a file is missing or was not written by NumPy, or an input is given twice.
  """
  found: dict[str, np.ndarray] = {}
  strings: dict[str, list[bytes]] = {}
  for argument in arguments:
    key, _, location = argument.partition("=")
    if key in text and holds_strings(location):
      strings.setdefault(key, []).extend(read_strings(location, argument))
      continue
    for name, array in _read_argument(argument).items():
      if name in found:
        raise ArrayFileError(f"--input {argument}: input {name!r} is given twice.")
      found[name] = array
  twice = sorted(found.keys() & strings.keys())
  if twice:
    raise ArrayFileError(f"--input: {twice} are given as arrays and as files of strings.")
  return {**found, **{name: np.array(items, object) for name, items in strings.items()}}


def fit_to_spec(name: str, array: np.ndarray, spec: TensorSpec) -> tuple[np.ndarray, str | None]:
  """Returns the array with the dtype of the input, and a remark if its dtype was changed.

  Raises:
    ArrayFileError: another shape, or a dtype that would lose more than precision.
  """
  if spec.dtype is DType.STRING:
    return as_strings(name, array, spec), None
  if not spec.shape.is_compatible_with(array.shape):
    raise ArrayFileError(f"input {name!r}: the file holds shape {list(array.shape)}; expected {spec}.")
  wanted = spec.dtype.numpy
  if array.dtype == wanted:
    return array, None
  if wanted.hasobject or not np.can_cast(array.dtype, wanted, "same_kind"):
    raise ArrayFileError(
      f"input {name!r}: the file holds {array.dtype.name}, which does not turn into {spec.dtype.tf_name} without "
      f"losing values; expected {spec}. Convert the array first, with array.astype({wanted.name!r})."
    )
  with np.errstate(over="ignore"):
    fitted = array.astype(wanted)
  lost = fitted != array if wanted.kind in "iu" else np.isfinite(array) & ~np.isfinite(fitted)
  if np.any(lost):
    raise ArrayFileError(
      f"input {name!r}: the file holds {array.dtype.name} values that {spec.dtype.tf_name} does not hold, such as "
      f"{array[lost].flat[0]}; expected {spec}."
    )
  return fitted, f"input {name!r}: {array.dtype.name} was converted to {wanted.name}"


def check_output_path(path: Path, output_names: Sequence[str], *, force: bool = False) -> None:
  """Returns when `save_outputs` can write these outputs there.

  Args:
    path: the file to write.
    output_names: the names of the outputs.
    force: whether a file that is there may be replaced.

  Raises:
    OutputExistsError: a file is there and may not be replaced.
    ArrayFileError: the suffix is another one, or a .npy file is asked for with several outputs.
    OSError: there can be no file of that name.
  """
  check_new_file(path)
  if path.suffix not in (".npy", ".npz"):
    raise ArrayFileError(f"--output {path}: unknown suffix {path.suffix!r}; expected .npz, or .npy for one output.")
  if path.suffix == ".npy" and len(output_names) != 1:
    raise ArrayFileError(
      f"--output {path}: a .npy file holds one array, but the outputs are {list(output_names)}; write a .npz file."
    )
  if path.exists() and not force:
    raise OutputExistsError(f"{path} exists already; pass --force to replace it, or choose another name.")


def save_outputs(path: Path, outputs: Mapping[str, np.ndarray]) -> list[str]:
  """Writes outputs to a .npz file under their names, or a single one to a .npy file; returns remarks.

  Types that numpy cannot save (bfloat16, float8, int4) are widened, which is exact.
  """
  remarks = []
  arrays = {}
  for name, value in outputs.items():
    arrays[name] = _savable(value)
    if arrays[name].dtype != value.dtype:
      remarks.append(f"output {name!r}: {value.dtype.name} was saved as {arrays[name].dtype.name}")
  with new_file(path) as scratch:
    if path.suffix == ".npy":
      np.save(scratch, next(iter(arrays.values())), allow_pickle=False)
    else:
      _save_npz(scratch, arrays)
  return remarks


def _save_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
  # np.savez takes arrays as keyword arguments beside its own, so it would refuse an output called "file".
  with zipfile.ZipFile(path, "w") as archive:
    for name, array in arrays.items():
      with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
        np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)


def _read_argument(argument: str) -> dict[str, np.ndarray]:
  name, equals, location = argument.partition("=")
  if not equals:
    name, location = "", argument
  path, _, key = location.rpartition(":") if ".npz:" in location else (location, "", "")
  loaded = _load(Path(path), argument)
  if isinstance(loaded, dict):
    return _choose(loaded, name, key, argument)
  if not name:
    raise ArrayFileError(f"--input {argument}: a .npy file has no name; expected NAME={argument}.")
  return {name: loaded}


def _choose(arrays: dict[str, np.ndarray], name: str, key: str, argument: str) -> dict[str, np.ndarray]:
  if not name and not key:
    return arrays
  key = key or (next(iter(arrays)) if len(arrays) == 1 else name)
  if key not in arrays:
    raise ArrayFileError(f"--input {argument}: the file has no array {key!r}; it has {list(arrays)}.")
  return {name or key: arrays[key]}


def _load(path: Path, argument: str) -> np.ndarray | dict[str, np.ndarray]:
  if not path.is_file():
    raise ArrayFileError(f"--input {argument}: no such file {str(path)!r}.")
  try:
    # Pickled arrays would run code from the file.
    loaded = np.load(path, allow_pickle=False, mmap_mode="r" if path.suffix == ".npy" else None)
    if isinstance(loaded, np.ndarray):
      return loaded
    with loaded:
      return dict(loaded)
  except (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as e:
    raise ArrayFileError(f"--input {argument}: not a .npy or .npz file of numbers: {_reason(path, e)}") from e


# How files that numpy writes begin: arrays, and archives of them.
_BEGINNINGS = (b"\x93NUMPY", b"PK")


def _reason(path: Path, error: Exception) -> str:
  """Returns why a file was not read. NumPy's own message would advise to allow pickled objects."""
  try:
    with path.open("rb") as file:
      beginning = file.read(12)
  except OSError as e:
    return str(e)
  if not beginning:
    return "it is empty. Write one with numpy.save."
  if not beginning.startswith(_BEGINNINGS):
    return f"it begins with {beginning!r}. Write one with numpy.save."
  if isinstance(error, ValueError) and re.search("pickle|Python objects", str(error)):
    return "it holds Python objects, which are not read, as they can run code. Save an array of numbers."
  return str(error)


def _savable(value: np.ndarray) -> np.ndarray:
  if value.dtype.hasobject:
    # NumPy pickles Python objects, and its own strings of bytes end at the last byte that is not zero.
    if any(item.endswith(b"\0") for item in value.reshape(-1).tolist()):
      raise ArrayFileError(
        "--output: a string of the outputs ends with a zero byte, which NumPy's strings do not hold."
      )
    return value.astype(np.bytes_)
  if value.dtype.kind != "V" and value.dtype.isbuiltin == 1:
    return value
  if "float" in value.dtype.name:
    return value.astype(np.float32)
  return value.astype(np.uint8 if value.dtype.name.startswith("uint") else np.int8)
