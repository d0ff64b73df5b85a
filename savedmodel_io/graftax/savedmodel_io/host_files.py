"""Head and tail of a split model in a folder of their own: `write_host_parts` and `read_host_parts`."""

import json
import keyword
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from graftax.convert import HostArray, HostParts
from graftax.graphdef_ir import FolderPaths, Limits
from graftax.savedmodel_io.errors import DamagedSavedModelError, NotASavedModelError
from graftax.savedmodel_io.programs.model_nodes import with_models_as_nodes
from graftax.savedmodel_io.saved_model import load
from graftax.savedmodel_io.writing.new_model import write_saved_model

__all__ = ["read_host_parts", "write_host_parts"]

_ARRAYS = "arrays.json"
# A file with more is not ours.
_MAX_BYTES = 1 << 22
_MAX_RANK = 32
_MAX_SIZE = (1 << 63) - 1
_MAX_FIXED = 1024
_DTYPES = frozenset(
  (
    "bool",
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    *("bfloat16", "float16", "float32", "float64", "complex64", "complex128"),
  )
)


def write_host_parts(path: str | os.PathLike[str], parts: HostParts) -> None:
  """Writes what runs on the host around the source of a split model, for `read_host_parts`.

  The folder is a SavedModel with the functions `head` and `tail` and the tables and tokenizers that they use, so
  TensorFlow can run them, too.

  Args:
    path: the folder to write.
    parts: `Source.host` of what `graftax.convert.to_source` returned.

  Raises:
    ConversionError: TensorFlow runs the head.
    UnsupportedSavedModelError: a part holds something that SavedModels cannot store.
    OutputExistsError: something of that name exists.
    CheckpointWriteError: a file cannot be written.
  """
  head, tail = map(with_models_as_nodes, parts.programs())
  arrays = [
    {
      "name": array.name,
      "dtype": array.dtype,
      "shape": list(array.shape),
      "value": None if array.value is None else list(array.value),
    }
    for array in parts.arrays
  ]
  described = {"arrays": arrays, "results": list(parts.results)}
  with tempfile.TemporaryDirectory() as folder:
    file = Path(folder, _ARRAYS)
    file.write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")
    write_saved_model(path, {"head": head, "tail": tail}, assets=[file])


def read_host_parts(
  path: str | os.PathLike[str], *, limits: Limits | None = None, allow_files_in: FolderPaths = ()
) -> HostParts:
  """Returns what `write_host_parts` wrote; TensorFlow is not needed.

  Args:
    path: the folder.
    limits: as for `load`.
    allow_files_in: as for `load`.

  Raises:
    NotASavedModelError: the folder is something else.
    DamagedSavedModelError: its files are damaged.
    Others: as `load` does.
  """
  model = load(path, limits=limits, allow_files_in=allow_files_in)
  file = Path(model.path, "assets", _ARRAYS)
  if not {"head", "tail"} <= model.functions.keys() or not file.exists():
    raise NotASavedModelError(f"{path}: expected the functions 'head' and 'tail' and the file assets/{_ARRAYS}")
  data = model.folder.read(file, f"{path}", max_bytes=_MAX_BYTES)
  try:
    described = _dict(json.loads(data))
    arrays = [_array(entry) for entry in _list(described["arrays"])]
    results = [_text(name) for name in _list(described["results"])]
  except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as e:
    raise DamagedSavedModelError(f"{file}: does not describe arrays: {type(e).__name__}: {e}") from e
  return HostParts.from_programs(model.program("head"), model.program("tail"), arrays, results, limits=limits)


def _array(entry: object) -> HostArray:
  fields = _dict(entry)
  name, sizes, stored = _text(fields["name"]), _list(fields["shape"]), fields["value"]
  if not name.isidentifier() or keyword.iskeyword(name) or len(sizes) > _MAX_RANK:
    raise ValueError(f"name {name!r:.80} with {len(sizes)} sizes")
  dtype, shape = _dtype(fields["dtype"]), tuple(_size(size) for size in sizes)
  if stored is None:
    return HostArray(name, dtype, shape)
  value = tuple(_size(number) for number in _list(stored)[: _MAX_FIXED + 1])
  numbers = [size for size in shape if isinstance(size, int)]
  if len(numbers) < len(shape) or math.prod(numbers) != len(value) or len(value) > _MAX_FIXED or "int" not in dtype:
    raise ValueError(f"{name:.80} is always {len(value)} numbers, {dtype}, of the shape {shape!r:.80}")
  return HostArray(name, dtype, shape, value)


def _text(value: object) -> str:
  if not isinstance(value, str):
    raise TypeError(f"expected a text, and not {value!r:.80}")
  return value


def _size(size: object) -> int | str:
  is_size = isinstance(size, int) and not isinstance(size, bool) and abs(size) <= _MAX_SIZE
  if not is_size and not (isinstance(size, str) and size.removesuffix("+1").isidentifier()):
    raise ValueError(f"a size is {size!r:.80}")
  return size  # type: ignore[return-value]  # checked above


def _dtype(name: object) -> str:
  if not isinstance(name, str) or name not in _DTYPES:
    raise ValueError(f"a dtype is {name!r:.80}")
  return name


def _dict(value: object) -> Mapping[str, object]:
  if not isinstance(value, dict):
    raise TypeError(f"expected an object, and not {value!r:.80}")
  return value


def _list(value: object) -> Sequence[object]:
  if not isinstance(value, list):
    raise TypeError(f"expected a list, and not {value!r:.80}")
  return value
