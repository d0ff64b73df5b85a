"""Models that are rewritten for another consumer: files of other kinds, with other StableHLO or plain ops."""

from pathlib import Path

from google.protobuf.message import DecodeError

from graftax.graphdef_ir import DType, schema
from graftax.savedmodel_io import rewrite
from graftax.testing.hostile.draw import Draw
from graftax.testing.hostile.grammar.protos import Shape, add
from graftax.testing.hostile.grammar.protos import graph as graph_message
from graftax.testing.hostile.registry import Attempt, Box, Template, family, find_template, templates

_KIND = "rewriting"
_CONSUMERS = ("tensorflow-2.16", "tensorflow", "tensorflow-2.13", "onnx", "tflite", "tfjs", "plain")


def _rewritten(write: Template, draw: Draw, box: Box) -> Attempt:
  """Returns the attempt to rewrite what another template wrote."""
  write(draw, box)
  graph = box.model / "graph.pb"
  for module in [file for file in box.model.iterdir() if file.name.startswith("module.")]:
    graph.write_bytes(_calling(module.read_bytes(), version=draw.pick(9, 5, 4, 10)))
    module.unlink()
  if graph.exists():
    _as_saved_model(graph)
  consumer, platforms = draw.pick(*_CONSUMERS), draw.pick(None, ["cpu"], ["tpu"], ["cuda", "cpu"])
  target = box.model.parent / "scratch" / "rewritten"
  return Attempt(lambda: str(rewrite(box.model, target, consumer, platforms=platforms)))


def _calling(module: bytes, version: int) -> bytes:
  """Returns a graph with a node that runs a module."""
  made = graph_message()
  add(made.node, "x", "Placeholder", dtype=DType.FLOAT, shape=Shape((4, 4)))
  types = {"Tin": [DType.FLOAT], "Tout": [DType.FLOAT], "Sout": [Shape((4, 4))]}
  add(made.node, "call", "XlaCallModule", "x", module=module, version=version, platforms=[b"CPU"], **types)
  return made.SerializeToString()


def _as_saved_model(graph: Path) -> None:
  model = schema.SavedModel(saved_model_schema_version=1)
  meta = model.meta_graphs.add()
  meta.meta_info_def.tags.append("serve")
  try:
    meta.graph_def.MergeFromString(graph.read_bytes())
  except DecodeError:
    return
  graph.with_name("saved_model.pb").write_bytes(model.SerializeToString())
  graph.unlink()


def _writers() -> dict[str, Template]:
  """Returns the templates of SavedModels, graphs and modules."""
  kinds = ("saved_model", "graph_file", "stablehlo_text", "stablehlo_bytes")
  return {f"{kind}_{name}": find_template(kind, name) for kind, name in templates(kinds)}


family(_KIND, _writers(), _rewritten)
