"""What a file of weights without a program holds: a checkpoint, a Keras file, or safetensors."""

import dataclasses
import math
import os
from collections.abc import Mapping
from typing import Any

from graftax.graphdef_ir import DType, FolderPaths
from graftax.savedmodel_io import (
  CheckpointReader,
  is_graph_file,
  is_keras_file,
  is_saved_model,
  read_safetensors,
  read_weights,
)
from graftax.savedmodel_io.errors import CheckpointNotFoundError
from graftax.tools.inspection.model_report import ParameterReport

__all__ = ["WeightsReport", "report_weights"]

_SAFETENSORS = ".safetensors"
_ARCHIVES = (".tar.gz", ".tgz", ".tar")


@dataclasses.dataclass(frozen=True, slots=True)
class WeightsReport:
  """The tensors in a checkpoint, a Keras file or a file of safetensors.

  Attributes:
    path: the file, or the path of the checkpoint.
    kind: what it is, such as `"Keras file"`.
    parameters: one for each tensor.
  """

  path: str
  kind: str
  parameters: tuple[ParameterReport, ...]

  def to_json(self) -> dict[str, Any]:
    """Returns the same as dicts, lists, strings and numbers."""
    return dataclasses.asdict(self)


def report_weights(path: str, allow_files_in: FolderPaths = ()) -> WeightsReport | None:
  """Returns a report on a checkpoint, a Keras file or safetensors, or None if `path` is something else.

  Args:
    path: the file, or the path of the checkpoint.
    allow_files_in: folders whose files may be read besides its own.

  Raises:
    CheckpointError, WeightsError: it is one, but cannot be read.
  """
  if is_keras_file(path):
    weights = read_weights(path, allow_files_in=allow_files_in)
    return _report(path, "Keras file", {name: (array.dtype.name, array.shape) for name, array in weights.items()})
  if path.endswith(_SAFETENSORS) and os.path.isfile(path):
    arrays = read_safetensors(path)
    return _report(path, "safetensors", {name: (array.dtype.name, array.shape) for name, array in arrays.items()})
  if is_graph_file(path) or is_saved_model(path) or path.endswith(_ARCHIVES):
    return None
  try:
    reader = CheckpointReader(path, verify=False, allow_files_in=allow_files_in)
  except CheckpointNotFoundError:
    return None
  entries = {key: (entry.dtype.tf_name, entry.shape) for key, entry in reader.entries.items()}
  return _report(reader.path_prefix, f"checkpoint of format {reader.format}", entries)


def _report(path: str, kind: str, tensors: Mapping[str, tuple[str, tuple[int, ...]]]) -> WeightsReport:
  return WeightsReport(path, kind, tuple(_parameter(name, *tensor) for name, tensor in sorted(tensors.items())))


def _parameter(name: str, dtype: str, shape: tuple[int, ...]) -> ParameterReport:
  size = None if dtype == "string" else math.prod(shape) * DType.from_name(dtype).numpy.itemsize
  return ParameterReport(name, dtype, shape, size, trainable=True, has_value=True, is_used=True)
