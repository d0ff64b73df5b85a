"""A model reads its own folder and nothing else, whatever its files name."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from graftax.convert import convert, split_program
from graftax.graphdef_ir import GraftaxError, ModelFolder, UnsafeFileError, schema
from graftax.savedmodel_io import CheckpointReader, load, read_checkpoint

_DATA = Path(__file__).parent / "testdata/2026_11_21"
_SECRET = b"the secret\n"


@pytest.fixture(autouse=True)
def no_further_folders(monkeypatch):
  monkeypatch.delenv("GRAFTAX_ALLOW_FILES_IN", raising=False)


def copied(name: str, tmp_path: Path) -> Path:
  (tmp_path / "secret").write_bytes(_SECRET)
  return Path(shutil.copytree(_DATA / name, tmp_path / "model"))


def moved_out(model: Path, relative: str) -> Path:
  """Moves a file of the model to a folder beside it and leaves a link in its place, as caches of some hubs do."""
  blobs = model.parent / "blobs"
  blobs.mkdir(exist_ok=True)
  shutil.move(model / relative, blobs / "0a1b")
  os.symlink(os.path.relpath(blobs / "0a1b", (model / relative).parent), model / relative)
  return blobs


@pytest.mark.parametrize(
  "relative", ["saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"]
)
def test_a_file_of_the_model_that_is_a_link_out_of_it_is_refused(tmp_path, relative):
  model = copied("keras_export", tmp_path)
  blobs = moved_out(model, relative)
  with pytest.raises(UnsafeFileError, match=f"outside of the folder of the model.*allow_files_in=..{blobs}"):
    load(model)
  assert load(model, allow_files_in=blobs).convert("serve")[1]


def test_links_within_the_model_and_a_link_to_it_are_followed(tmp_path):
  model = copied("keras_export", tmp_path)
  shutil.move(model / "variables", model / "values")
  os.symlink("values", model / "variables")
  os.symlink(model, tmp_path / "alias")
  assert load(tmp_path / "alias").convert("serve")[1]


def test_variables_in_a_linked_folder_elsewhere_are_refused(tmp_path):
  model = copied("keras_export", tmp_path)
  shutil.move(model / "variables", tmp_path / "variables")
  os.symlink("../variables", model / "variables")
  with pytest.raises(UnsafeFileError, match="variables.index"):
    load(model)
  # The caller names this one.
  assert len(CheckpointReader(model / "variables/variables"))


def test_a_caller_who_names_the_file_itself_may_name_a_link(tmp_path):
  model = copied("keras_export", tmp_path)
  moved_out(model, "saved_model.pb")
  assert load(model / "saved_model.pb").convert("serve")[1]


def test_a_shard_of_a_checkpoint_that_is_a_link_out_of_its_folder_is_refused(tmp_path):
  checkpoint = copied("sharded", tmp_path)
  shard = next(checkpoint.glob("*.data-*"))
  blobs = moved_out(checkpoint, shard.name)
  prefix = str(shard).partition(".data-")[0]
  with pytest.raises(UnsafeFileError, match="a data shard of the checkpoint"):
    read_checkpoint(prefix)
  assert read_checkpoint(prefix, allow_files_in=blobs)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
@pytest.mark.parametrize(
  "relative", ["saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"]
)
def test_pipes_and_folders_in_place_of_files_are_refused(tmp_path, relative, make):
  model = copied("keras_export", tmp_path)
  (model / relative).unlink()
  make(model / relative)
  with pytest.raises(UnsafeFileError, match="expected a regular file"):
    load(model)


def graph_model(tmp_path: Path, path: str, *, table: bool) -> Path:
  """Returns a TF1 model of a signature that reads a file: with ReadFile, or as a table."""
  graph = schema.GraphDef()
  graph.node.add(name="x", op="Placeholder").attr["dtype"].type = 7
  file = graph.node.add(name="file", op="Const")
  file.attr["dtype"].type = 7
  file.attr["value"].tensor.CopyFrom(
    schema.TensorProto(dtype=7, tensor_shape=schema.TensorShapeProto(), string_val=[path.encode()])
  )
  if table:
    maker = graph.node.add(name="table", op="HashTableV2")
    maker.attr["key_dtype"].type, maker.attr["value_dtype"].type = 7, 9
    fill = graph.node.add(name="fill", op="InitializeTableFromTextFileV2", input=["table", "file"])
    fill.attr["key_index"].i, fill.attr["value_index"].i = -2, -1
    default = graph.node.add(name="default", op="Const")
    default.attr["dtype"].type = 9
    default.attr["value"].tensor.CopyFrom(
      schema.TensorProto(dtype=9, tensor_shape=schema.TensorShapeProto(), int64_val=[-1])
    )
    found = graph.node.add(name="y", op="LookupTableFindV2", input=["table", "x", "default"])
    found.attr["Tin"].type, found.attr["Tout"].type = 7, 9
  else:
    graph.node.add(name="content", op="ReadFile", input=["file"])
    joined = graph.node.add(name="y", op="StringJoin", input=["content", "x"])
    joined.attr["N"].i = 2
  model = schema.SavedModel(saved_model_schema_version=1)
  meta_graph = model.meta_graphs.add(graph_def=graph)
  meta_graph.meta_info_def.tags.append("serve")
  signature = meta_graph.signature_def["serving_default"]
  signature.method_name = "tensorflow/serving/predict"
  signature.inputs["x"].name, signature.inputs["x"].dtype = "x:0", 7
  signature.outputs["y"].name, signature.outputs["y"].dtype = "y:0", 9 if table else 7
  folder = tmp_path / "model"
  folder.mkdir(exist_ok=True)
  for info in (signature.inputs["x"], signature.outputs["y"]):
    info.tensor_shape.unknown_rank = True
  (folder / "saved_model.pb").write_bytes(model.SerializeToString())
  (tmp_path / "graph.pb").write_bytes(graph.SerializeToString())
  return folder


def run(model, x):
  head, body, params, tail = model.split()
  return tail(body(params, *head(x=x)))["y"]


@pytest.mark.parametrize("path", ["{tmp}/secret", "{tmp}/model/../secret", "{tmp}/model/link", "secret", "../secret"])
@pytest.mark.parametrize("table", [True, False])
def test_a_graph_that_names_a_file_elsewhere_does_not_read_it(tmp_path, monkeypatch, path, table):
  (tmp_path / "secret").write_bytes(_SECRET)
  (tmp_path / "model").mkdir()
  os.symlink("../secret", tmp_path / "model/link")
  monkeypatch.chdir(tmp_path if path == "secret" else tmp_path / "model")
  model = graph_model(tmp_path, path.format(tmp=tmp_path), table=table)
  node = "InitializeTableFromTextFileV2 node 'fill'" if table else r"ReadFile node 'content' \(function"
  with pytest.raises(UnsafeFileError, match=f"{node}.*secret.*outside of the folder of the model.*{tmp_path}.\\]"):
    run(load(model), ["the secret"])
  result = run(load(model, allow_files_in=tmp_path), ["the secret"])
  assert result.tolist() == ([0] if table else [_SECRET + b"the secret"])


@pytest.mark.parametrize("table", [True, False])
def test_a_graph_that_names_a_file_of_the_model_reads_it(tmp_path, table):
  (tmp_path / "model").mkdir()
  (tmp_path / "model/words").write_bytes(_SECRET)
  model = graph_model(tmp_path, f"{tmp_path}/model/words", table=table)
  assert run(load(model), ["the secret"]).tolist() == ([0] if table else [_SECRET + b"the secret"])


@pytest.mark.parametrize("table", [True, False])
def test_a_device_or_a_pipe_that_a_graph_names_is_refused(tmp_path, table):
  model = graph_model(tmp_path, f"{tmp_path}/model/pipe", table=table)
  os.mkfifo(model / "pipe")
  with pytest.raises(UnsafeFileError, match="a named pipe; expected a regular file"):
    run(load(model), ["x"])
  model = graph_model(tmp_path, "/dev/zero", table=table)
  with pytest.raises(UnsafeFileError, match="a device; expected a regular file"):
    run(load(model, allow_files_in="/dev"), ["x"])


def test_a_graph_by_itself_reads_no_files(tmp_path):
  (tmp_path / "words").write_bytes(_SECRET)
  graph_model(tmp_path, f"{tmp_path}/words", table=True)
  # A model that is not asked for the table does not need its file.
  for allowed in ((), tmp_path):
    program = load(tmp_path / "graph.pb", allow_files_in=allowed).program(x=np.zeros(2, object))
    if allowed:
      assert split_program(program)
      continue
    with pytest.raises(UnsafeFileError, match="without a folder of its own"):
      split_program(program)
  with pytest.raises(UnsafeFileError, match="without a folder of its own"):
    convert(str(tmp_path / "graph.pb"), inputs=["x"], outputs=["y"])
  with pytest.raises(GraftaxError, match="string keys"):
    convert(str(tmp_path / "graph.pb"), inputs=["x"], outputs=["y"], allow_files_in=[tmp_path])


def test_an_asset_that_is_a_link_out_of_the_model_is_refused(tmp_path):
  model = copied("module", tmp_path)
  name = next(iter(load(model).assets))
  moved_out(model, f"assets/{name}")
  with pytest.raises(UnsafeFileError, match=f"asset '{name}'"):
    load(model).assets[name]
  with pytest.raises(UnsafeFileError, match="leads to"):
    load(model).save(tmp_path / "copy")
  assert not (tmp_path / "copy").exists()
  assert not list(tmp_path.glob(".copy*"))


def test_a_pipe_beside_the_model_is_not_copied(tmp_path):
  model = copied("keras_export", tmp_path)
  os.mkfifo(model / "pipe")
  with pytest.raises(UnsafeFileError, match="a named pipe"):
    load(model).save(tmp_path / "copy")


def test_the_folder_of_a_loaded_model_is_known(tmp_path):
  model = copied("keras_export", tmp_path)
  assert load(model).folder == load(model).program("serve").folder == ModelFolder.of(model)
