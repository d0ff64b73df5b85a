"""What a file of StableHLO holds: of `Module.save` or `jax.export`, a portable artifact, bytecode, or text."""

import dataclasses
import os
from typing import Any

from graftax.graphdef_ir import open_regular_file
from graftax.tools.inputs.module_files import input_names, is_saved, read_module
from graftax.tools.inspection.model_report import TensorReport
from graftax.xla_call_module import ArgumentSpec, Module, StableHloError, explain
from graftax.xla_call_module.rewriting import open_arguments

__all__ = ["ModuleReport", "report_module"]

# A file with one of these names holds a model, weights or arrays, and other readers say what is wrong with it.
_OTHERS = (
  ".pb",
  ".pbtxt",
  ".meta",
  ".index",
  ".gz",
  ".tgz",
  ".tar",
  ".keras",
  ".h5",
  ".hdf5",
  ".json",
  ".cpb",
  ".safetensors",
)
# Enough of a file to tell what wrote it.
_NUM_HEADER_BYTES = 64
# The last bytes of a table of LevelDB, as which checkpoints in format 1 are stored.
_TABLE = bytes.fromhex("57fb808b247547db")


@dataclasses.dataclass(frozen=True, slots=True)
class ModuleReport:
  """A StableHLO module, and how it runs in JAX.

  Attributes:
    path: the file.
    kind: what it is.
    inputs: the arguments of a call; a size that is not fixed is None.
    outputs: the results.
    platforms: those that it was lowered for; empty if it does not say.
    plan: `"lift"` if all of it becomes JAX operations, otherwise what `graftax.xla_call_module.explain` says.
    problems: ops that do not lift, and why a call would fail in this process.
    works: what to do with the file.
  """

  path: str
  kind: str
  inputs: tuple[TensorReport, ...]
  outputs: tuple[TensorReport, ...]
  platforms: tuple[str, ...]
  plan: str
  problems: tuple[str, ...]
  works: tuple[str, ...]

  def to_json(self) -> dict[str, Any]:  # Any: JSON
    """Returns the same as dicts, lists, strings and numbers."""
    return dataclasses.asdict(self)


def report_module(path: str) -> ModuleReport | None:
  """Returns a report on a file of StableHLO; None if `path` is not a file, or if its name says that it is another kind.

  Raises:
    CommandError: the file holds something else.
  """
  if not os.path.isfile(path) or path.lower().endswith(_OTHERS) or _is_checkpoint(path):
    return None
  module = read_module(path)
  kind, how = _kind(path, module)
  plan: str
  try:
    explanation = explain(module, *open_arguments(module))
    plan = explanation.plan
    problems = (*(f"{o.op}: {o.reason}" for o in explanation.obstacles), *explanation.refusals)
  except StableHloError as e:
    plan, problems = "none", (str(e),)
  return ModuleReport(
    path,
    kind,
    tuple(_tensor(name, spec) for name, spec in zip(input_names(module), module.inputs, strict=True)),
    tuple(_tensor(f"output_{i}", spec) for i, spec in enumerate(module.outputs)),
    module.platforms,
    plan,
    problems,
    (
      f"in JAX: graftax.xla_call_module.lift(graftax.xla_call_module.Module.{how})",
      f"in TensorFlow: graftax rewrite {path} --for tensorflow --out FOLDER",
    ),
  )


def _kind(path: str, module: Module) -> tuple[str, str]:
  """Returns what a file is, and the call that reads it."""
  with open(path, "rb") as file:
    if is_saved(file.read(_NUM_HEADER_BYTES)):
      return "file of Module.save", f"load({path!r})"
  content = f"pathlib.Path({path!r}).read_bytes()"
  if module.signature is not None:
    return "file of jax.export", f"from_exported({content})"
  return "StableHLO module", f"from_bytes({content})"


def _is_checkpoint(path: str) -> bool:
  if os.path.exists(f"{path}.index") or ".data-" in os.path.basename(path) or ".ckpt" in os.path.basename(path):
    return True
  with open_regular_file(path, "the model") as file:
    file.seek(max(file.seek(0, os.SEEK_END) - len(_TABLE), 0))
    return file.read(len(_TABLE)) == _TABLE


def _tensor(name: str, spec: ArgumentSpec) -> TensorReport:
  return TensorReport(name, spec.dtype.name, spec.shape)
