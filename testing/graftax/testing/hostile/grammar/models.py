"""SavedModels: one of functions and objects, as TensorFlow 2 writes, and one that is a graph."""

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from graftax.graphdef_ir import DType, FunctionRef, schema
from graftax.savedmodel_io import write_saved_model
from graftax.testing.graph_builders import const, function, node, program
from graftax.testing.hostile.grammar.protos import Shape, attr
from graftax.testing.hostile.grammar.tables import new_bundle, write_bundle

__all__ = ["graph_model", "object_model", "write_graph_model", "write_object_model"]

# Any: attributes of nodes.
_TYPES: dict[str, Any] = {"T": DType.FLOAT}
_CALL: dict[str, Any] = {"Tin": (DType.FLOAT,), "Tout": (DType.FLOAT,)}


@cache
def _object_model_files() -> dict[str, bytes]:
  """Returns the files of a model `f(x) = g(x + w) * 2 + v`, by path."""
  inner = function("g", ["y"], [node("r", "Relu", "y", **_TYPES)], ["r:0"])
  body = [
    node("w_read", "ReadVariableOp", "w", dtype=DType.FLOAT),
    node("v_read", "ReadVariableOp", "v", dtype=DType.FLOAT),
    const("two", np.float32(2)),
    node("add", "AddV2", "x", "w_read:0", **_TYPES),
    node("call", "PartitionedCall", "add:0", f=FunctionRef("g"), **_CALL),
    node("mul", "Mul", "call:0", "two:0", **_TYPES),
    node("out", "AddV2", "mul:0", "v_read:0", **_TYPES),
  ]
  root = function("f", ["x", "*w", "*v"], body, ["out:0"])
  made = program(root, [inner], {"w": 1.0, "v": 3.0})
  with tempfile.TemporaryDirectory() as folder:
    (Path(folder) / "words.txt").write_text("red\ngreen\n")
    target = Path(folder) / "model"
    write_saved_model(
      target, {"__call__": made}, signatures={"serving_default": "__call__"}, assets=[Path(folder) / "words.txt"]
    )
    return {str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*") if path.is_file()}


def object_model() -> schema.SavedModel:
  """Returns the message of the model with functions."""
  return schema.SavedModel.FromString(_object_model_files()["saved_model.pb"])


def write_object_model(folder: Path, model: schema.SavedModel | None = None) -> Path:
  """Writes the model with functions, with another message if one is given."""
  for name, data in _object_model_files().items():
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)
  if model is not None:
    (folder / "saved_model.pb").write_bytes(model.SerializeToString())
  return folder


def graph_model(
  build: Callable[[schema.GraphDef], None], inputs: dict[str, tuple[DType, tuple[int, ...]]], *outputs: str
) -> schema.SavedModel:
  """Returns a SavedModel of TF1 with one signature.

  Args:
    build: adds nodes to the graph, which has a Placeholder for each input.
    inputs: name -> dtype and shape.
    *outputs: names of tensors.
  """
  model = schema.SavedModel(saved_model_schema_version=1)
  meta = model.meta_graphs.add()
  meta.meta_info_def.tags.append("serve")
  meta.graph_def.versions.producer = 2200
  signature = meta.signature_def["serving_default"]
  for name, (dtype, shape) in inputs.items():
    placeholder = meta.graph_def.node.add(name=name, op="Placeholder")
    placeholder.attr["dtype"].type = int(dtype)
    placeholder.attr["shape"].CopyFrom(attr(Shape(shape)))
    info = signature.inputs[name]
    info.name, info.dtype = f"{name}:0", int(dtype)
    info.tensor_shape.CopyFrom(attr(Shape(shape)).shape)
  build(meta.graph_def)
  for name in outputs:
    signature.outputs[name].name = name if ":" in name else f"{name}:0"
    signature.outputs[name].dtype = int(DType.FLOAT)
    signature.outputs[name].tensor_shape.unknown_rank = True
  return model


def write_graph_model(folder: Path, model: schema.SavedModel, values: dict[str, np.ndarray] | None = None) -> Path:
  """Writes a SavedModel of TF1, with a checkpoint if it has values."""
  folder.mkdir(exist_ok=True)
  (folder / "saved_model.pb").write_bytes(model.SerializeToString())
  if values:
    write_bundle(folder / "variables" / "variables", new_bundle(values))
  return folder
