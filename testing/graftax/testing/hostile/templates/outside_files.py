"""Models that name files outside of their folder: tables, ops, checkpoint states, links, pipes and devices."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from graftax.graphdef_ir import DType, schema
from graftax.savedmodel_io import latest_checkpoint, load
from graftax.testing.hostile.draw import Draw
from graftax.testing.hostile.grammar.models import graph_model, object_model, write_graph_model, write_object_model
from graftax.testing.hostile.grammar.protos import Func, Shape, add, const, function, table
from graftax.testing.hostile.grammar.readers import use_checkpoint, use_model, use_safetensors, use_split, use_weights
from graftax.testing.hostile.grammar.tables import new_bundle, write_bundle
from graftax.testing.hostile.registry import Attempt, Box, family

_KIND = "outside_files"
_S = DType.STRING


def _path(draw: Draw, box: Box) -> str:
  return draw.pick(*box.outside_names(), str(box.outside / "fifo"), "/dev/stdin", "/proc/self/environ", "/etc/hostname")


def _file_model(draw: Draw, box: Box, build: Callable[[schema.GraphDef, str], None], *outputs: str) -> Attempt:
  path = _path(draw, box)
  model = graph_model(lambda graph: build(graph, path), {"x": (_S, (2,))}, *outputs)
  write_graph_model(box.model, model)
  return Attempt(lambda: use_split(box.model), "typed")


def _find(graph: schema.GraphDef) -> None:
  const(graph.node, "default", np.int64(-1))
  add(graph.node, "found", "LookupTableFindV2", "table", "x", "default", Tin=_S, Tout=DType.INT64)


def _initializer(op: str, **attrs: object) -> Callable[[schema.GraphDef, str], None]:
  def build(graph: schema.GraphDef, path: str) -> None:
    table(graph.node)
    const(graph.node, "file", np.array(path, object))
    add(graph.node, "init", op, "table", "file", **attrs)
    _find(graph)

  return build


def _init_model(draw: Draw, box: Box, build: Callable[[schema.GraphDef, str], None]) -> Attempt:
  path = _path(draw, box)
  model = graph_model(lambda graph: build(graph, path), {"x": (_S, (2,))}, "found")
  meta = model.meta_graphs[0]
  if draw.chance(0.5):
    meta.signature_def["__saved_model_init_op"].outputs["__saved_model_init_op"].name = "init"
  else:
    meta.collection_def["saved_model_main_op"].node_list.value.append("init")
  if draw.chance(0.4):
    asset = meta.asset_file_def.add(filename=draw.pick(path, os.path.relpath(path, box.model / "assets")))
    asset.tensor_info.name = "file:0"
  write_graph_model(box.model, model)
  return Attempt(lambda: use_split(box.model))


_TABLES = {
  "table_from_text_file": {"vocab_size": -1, "key_index": -2, "value_index": -1, "delimiter": b"\t"},
  "table_from_columns": {"vocab_size": -1, "key_index": 0, "value_index": 0, "delimiter": b" "},
  "table_of_size": {"vocab_size": 2, "key_index": -2, "value_index": -1, "offset": 1},
}
family(
  _KIND,
  _TABLES,
  lambda attrs, draw, box: _init_model(draw, box, _initializer("InitializeTableFromTextFileV2", **attrs)),
)
family(
  _KIND,
  {"table_of_vocabulary_file": {}, "table_of_vocabulary_file_v1": {}},
  lambda attrs, draw, box: _init_model(
    draw, box, _initializer("InitializeTableFromTextFile", vocab_size=-1, key_index=-2, value_index=-1, **attrs)
  ),
)


def _read_file(graph: schema.GraphDef, path: str) -> None:
  const(graph.node, "file", np.array(path, object))
  add(graph.node, "bytes", "ReadFile", "file")
  add(graph.node, "out", "StringJoin", "bytes", "bytes", N=2)


def read_file_op(draw: Draw, box: Box) -> Attempt:
  return _file_model(draw, box, _read_file, "out")


def read_file_of_built_name(draw: Draw, box: Box) -> Attempt:
  def build(graph: schema.GraphDef, path: str) -> None:
    half = len(path) // 2
    const(graph.node, "first", np.array(path[:half], object))
    const(graph.node, "second", np.array(path[half:], object))
    add(graph.node, "file", "StringJoin", "first", "second", N=2)
    add(graph.node, "bytes", "ReadFile", "file")
    add(graph.node, "out", "StringLower", "bytes")

  return _file_model(draw, box, build, "out")


def read_file_in_a_branch(draw: Draw, box: Box) -> Attempt:
  def build(graph: schema.GraphDef, path: str) -> None:
    body = function(graph.library, "f", {"a": _S}, {"r": ("bytes:contents:0", _S)})
    add(body.node_def, "bytes", "ReadFile", "a")
    const(graph.node, "file", np.array(path, object))
    add(graph.node, "called", "PartitionedCall", "file", f=Func("f"), Tin=[_S], Tout=[_S])
    add(graph.node, "out", "StringLength", "called")

  return _file_model(draw, box, build, "out")


def other_file_ops(draw: Draw, box: Box) -> Attempt:
  op = draw.pick(
    *(
      "MatchingFiles WholeFileReaderV2 TextLineDataset FixedLengthRecordDataset TFRecordDataset RestoreV2 Restore "
      "LoadAndRemapMatrix ReadFile"
    ).split()
  )

  def build(graph: schema.GraphDef, path: str) -> None:
    const(graph.node, "file", np.array(path, object))
    count = {"MatchingFiles": 1, "ReadFile": 1, "WholeFileReaderV2": 0}.get(op, 3)
    add(graph.node, "made", op, *(["file"] * count), dtypes=[_S], dt=_S)
    add(graph.node, "out", "StringLower", "made")

  return _file_model(draw, box, build, "out")


def write_file_op(draw: Draw, box: Box) -> Attempt:
  def build(graph: schema.GraphDef, path: str) -> None:
    const(graph.node, "file", np.array(str(box.outside / "written"), object))
    const(graph.node, "text", np.array(path, object))
    add(graph.node, "write", draw.pick("WriteFile", "PrintV2"), "file", "text")
    add(graph.node, "out", "StringLower", "x").input.append("^write")

  attempt = _file_model(draw, box, build, "out")

  def check(value: object) -> None:
    del value
    assert not (box.outside / "written").exists(), "a file outside of the model was written"

  return Attempt(attempt.read, "typed", check)


def asset_names(draw: Draw, box: Box) -> Attempt:
  model = object_model()
  path = _path(draw, box)
  for asset in model.meta_graphs[0].asset_file_def:
    asset.filename = draw.pick(
      path, f"../{path}", os.path.relpath(path, box.model), os.path.relpath(path, box.model / "assets"), f"./{path}"
    )
  write_object_model(box.model, model)
  return Attempt(lambda: use_model(box.model))


def _link(draw: Draw, box: Box, *names: str, is_named: bool = False) -> None:
  """Replaces a file by a link, a pipe or a folder; links of a file that the caller names may be followed."""
  path = box.model / draw.pick(*names)
  path.parent.mkdir(parents=True, exist_ok=True)
  path.unlink(missing_ok=True)
  kinds = ["link", "relative link", "pipe", "device", "folder", "itself"]
  kind = draw.pick(*(kinds[2:] if is_named else kinds))
  if kind == "pipe":
    os.mkfifo(path)
  elif kind == "folder":
    path.mkdir()
  else:
    target = {
      "link": str(box.outside / "secret.txt"),
      "relative link": os.path.relpath(box.outside / draw.pick("saved_model.pb", "fifo"), path.parent),
      "device": draw.pick("/dev/zero", "/dev/full", "/dev/random"),
      "itself": path.name,
    }[kind]
    path.symlink_to(target)


def linked_assets(draw: Draw, box: Box) -> Attempt:
  write_object_model(box.model)
  _link(draw, box, "assets/words.txt")
  return Attempt(lambda: use_model(box.model))


def linked_model_file(draw: Draw, box: Box) -> Attempt:
  write_object_model(box.model)
  _link(draw, box, "saved_model.pb", "fingerprint.pb", "saved_model.cpb", "saved_model.pbtxt")
  return Attempt(lambda: use_model(box.model))


def linked_checkpoint(draw: Draw, box: Box) -> Attempt:
  write_object_model(box.model)
  _link(draw, box, "variables/variables.index", "variables/variables.data-00000-of-00001")
  return Attempt(lambda: use_model(box.model))


def linked_folder(draw: Draw, box: Box) -> Attempt:
  write_object_model(box.model)
  name = draw.pick("assets", "variables")
  for path in (box.model / name).iterdir():
    (box.outside / path.name).write_bytes(path.read_bytes())
    path.unlink()
  (box.model / name).rmdir()
  (box.model / name).symlink_to(draw.pick(box.outside, Path("..") / box.outside.name))
  return Attempt(lambda: use_model(box.model))


def checkpoint_state(draw: Draw, box: Box) -> Attempt:
  write_bundle(box.outside / "ckpt", new_bundle({"x": np.ones(2, np.float32)}))
  write_bundle(box.model / "ckpt", new_bundle({"y": np.ones(2, np.float32)}))
  names = [
    str(box.outside / "ckpt"),
    f"../{box.outside.name}/ckpt",
    f"x/../../{box.outside.name}/ckpt",
    "ckpt",
    str(box.outside / "x"),
  ]
  lines = [f'model_checkpoint_path: "{draw.pick(*names)}"']
  lines += [f'all_model_checkpoint_paths: "{draw.pick(*names)}"' for _ in range(draw.integer(0, 2))]
  (box.model / "checkpoint").write_text("\n".join(lines))
  if draw.chance(0.5):
    return Attempt(lambda: use_checkpoint(box.model))
  return Attempt(lambda: use_checkpoint(Path(str(latest_checkpoint(box.model)))))


def checkpoint_state_file(draw: Draw, box: Box) -> Attempt:
  write_bundle(box.model / "ckpt", new_bundle({"y": np.ones(2, np.float32)}))
  _link(draw, box, "checkpoint")
  return Attempt(lambda: use_checkpoint(box.model))


def linked_shards(draw: Draw, box: Box) -> Attempt:
  write_bundle(box.model / "ckpt", new_bundle({"y": np.ones(2, np.float32)}))
  # The index is the file that the caller names.
  _link(draw, box, "ckpt.data-00000-of-00001")
  return Attempt(lambda: use_checkpoint(box.model / "ckpt"))


def linked_weights(draw: Draw, box: Box) -> Attempt:
  readers = {
    "m.safetensors": use_safetensors,
    "m.h5": use_weights,
    "m.keras": use_weights,
    "m.weights.json": use_weights,
  }
  name = draw.pick(*sorted(readers))
  _link(draw, box, name, is_named=True)
  return Attempt(lambda: readers[name](box.model / name))


def linked_graph_file(draw: Draw, box: Box) -> Attempt:
  name = draw.pick("graph.pb", "graph.pbtxt", "model.meta")
  _link(draw, box, name, is_named=True)
  return Attempt(lambda: use_model(box.model / name))


def saver_path(draw: Draw, box: Box) -> Attempt:
  """A variable of TF1 whose restore op reads a checkpoint elsewhere."""
  write_bundle(box.outside / "ckpt", new_bundle({"v": np.ones(2, np.float32)}))
  path = draw.pick(str(box.outside / "ckpt"), f"../{box.outside.name}/ckpt", "/dev/zero")

  def build(graph: schema.GraphDef) -> None:
    add(graph.node, "v", "VariableV2", dtype=DType.FLOAT, shape=Shape((2,)), container=b"", shared_name=b"")
    const(graph.node, "save/Const", np.array(path, object))
    const(graph.node, "save/names", np.array(["v"], object))
    const(graph.node, "save/slices", np.array([""], object))
    add(graph.node, "save/RestoreV2", "RestoreV2", "save/Const", "save/names", "save/slices", dtypes=[DType.FLOAT])
    add(graph.node, "save/Assign", "Assign", "v", "save/RestoreV2", T=DType.FLOAT)
    add(graph.node, "save/restore_all", "NoOp", "^save/Assign")
    add(graph.node, "out", "AddV2", "x", "v", T=DType.FLOAT)

  model = graph_model(build, {"x": (DType.FLOAT, (2,))}, "out")
  saver = model.meta_graphs[0].saver_def
  saver.filename_tensor_name, saver.restore_op_name, saver.version = "save/Const:0", "save/restore_all", 2
  write_graph_model(box.model, model)
  return Attempt(lambda: use_model(box.model))


def sentencepiece_file(draw: Draw, box: Box) -> Attempt:
  def build(graph: schema.GraphDef, path: str) -> None:
    add(graph.node, "sp", "SentencepieceOp", model=path.encode(), shared_name=path.encode())
    add(graph.node, "out", "SentencepieceVocabSizeOp", "sp")

  return _file_model(draw, box, build, "out")


def vocabulary_of_a_lookup_layer(draw: Draw, box: Box) -> Attempt:
  """A table of TF2 whose initializer is a function that reads a file by a constant path."""
  path = _path(draw, box)
  model = object_model()
  meta = model.meta_graphs[0]
  const(meta.graph_def.node, "path_of_file", np.array(path, object))
  nodes = meta.object_graph_def.nodes
  root = nodes[0]
  root.children.add(node_id=len(nodes), local_name="table")
  table = nodes.add()
  table.resource.device = ""
  table.children.add(node_id=len(nodes), local_name="_initialize")
  initialize = nodes.add()
  initialize.function.concrete_functions.append("init")
  constant = len(nodes)
  nodes.add().constant.operation = "path_of_file"
  concrete = meta.object_graph_def.concrete_functions["init"]
  concrete.bound_inputs.extend([constant - 2, constant])
  body = meta.graph_def.library.function.add()
  body.signature.name = "init"
  body.signature.input_arg.add(name="table", type=int(DType.RESOURCE))
  body.signature.input_arg.add(name="file", type=int(_S))
  attrs = {"vocab_size": draw.size(-1), "key_index": -2, "value_index": -1}
  add(body.node_def, "fill", "InitializeTableFromTextFileV2", "table", "file", **attrs)
  write_object_model(box.model, model)

  def read() -> object:
    found = load(box.model)
    return [repr(found.resources[name]) for name in found.resources], use_split(box.model)

  return Attempt(read)
