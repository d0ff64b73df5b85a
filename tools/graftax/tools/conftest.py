"""Models for this package's tests, written by hand."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from graftax.graphdef_ir import DType, schema


@pytest.fixture
def write_model(tmp_path: Path) -> Callable[..., Path]:
  """Writes a SavedModel of a TF1 graph, and returns its folder; see `_write`."""
  return lambda *arguments: _write(tmp_path / "model", *arguments)


def _write(
  folder: Path,
  nodes: Sequence[tuple[str, str, Sequence[str]]],
  inputs: Mapping[str, str],
  outputs: Mapping[str, str],
  dtype: DType = DType.FLOAT,
) -> Path:
  """Writes a SavedModel of a TF1 graph: (name, op, inputs) nodes of one dtype, with one signature."""
  graph = schema.GraphDef()
  graph.versions.producer = 1882
  for name, op, sources in nodes:
    node = graph.node.add(name=name, op=op, input=sources)
    if op == "Placeholder":
      node.attr["dtype"].type = dtype.value
      node.attr["shape"].shape.unknown_rank = True
    elif op == "RandomStandardNormal":
      node.attr["dtype"].type = dtype.value
      node.attr["T"].type = DType.INT32.value
    elif op == "Shape":
      node.attr["T"].type = dtype.value
      node.attr["out_type"].type = DType.INT32.value
    else:
      node.attr["T"].type = dtype.value
  message = schema.SavedModel(saved_model_schema_version=1)
  meta_graph = message.meta_graphs.add(graph_def=graph)
  meta_graph.meta_info_def.tags.append("serve")
  signature = meta_graph.signature_def["serving_default"]
  signature.method_name = "tensorflow/serving/predict"
  for entries, names, size in ((signature.inputs, inputs, -1), (signature.outputs, outputs, -1)):
    for key, tensor in names.items():
      entries[key].name = tensor
      entries[key].dtype = dtype.value
      entries[key].tensor_shape.dim.add(size=size)
  folder.mkdir()
  (folder / "saved_model.pb").write_bytes(message.SerializeToString())
  return folder
