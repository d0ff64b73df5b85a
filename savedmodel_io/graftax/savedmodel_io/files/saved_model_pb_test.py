import os
from pathlib import Path

import hypothesis
import pytest
from google.protobuf import text_format
from hypothesis import strategies as st

from graftax.graphdef_ir import schema
from graftax.savedmodel_io.checkpoint.varint import encode_varint
from graftax.savedmodel_io.errors import (
  DamagedSavedModelError,
  NotASavedModelError,
  SavedModelError,
  SavedModelNotFoundError,
  UnknownTagsError,
  UnsupportedSavedModelError,
)
from graftax.savedmodel_io.files.saved_model_pb import all_tags, choose_meta_graph, is_saved_model, read_saved_model

_DATA = Path(__file__).parents[1] / "testdata/2026_11_21"
_MODULE = (_DATA / "module/saved_model.pb").read_bytes()


def _model(*tag_sets: list[str]) -> schema.SavedModel:
  model = schema.SavedModel(saved_model_schema_version=1)
  for tags in tag_sets:
    model.meta_graphs.add().meta_info_def.tags.extend(tags)
  return model


def _write(folder: Path, data: bytes, name: str = "saved_model.pb") -> str:
  (folder / name).write_bytes(data)
  return str(folder)


def test_a_folder_is_recognised_by_its_file_names(tmp_path):
  assert is_saved_model(_DATA / "module")
  assert not is_saved_model(_DATA / "sharded")
  assert not is_saved_model(tmp_path / "nothing")


def test_the_text_form_is_read(tmp_path):
  text = text_format.MessageToString(_model(["serve"])) + "meta_graphs { meta_info_def { unheard_of: 1 } }\n"
  model = read_saved_model(_write(tmp_path, text.encode(), "saved_model.pbtxt"))
  assert len(model.meta_graphs) == 2


def test_a_missing_folder_or_file_says_what_is_there(tmp_path):
  with pytest.raises(SavedModelNotFoundError, match="no such folder"):
    read_saved_model(str(tmp_path / "nothing"))
  (tmp_path / "config.json").write_text("{}")
  with pytest.raises(SavedModelNotFoundError, match="it holds .'config.json'."):
    read_saved_model(str(tmp_path))
  with pytest.raises(SavedModelNotFoundError, match="a file; expected the folder"):
    read_saved_model(str(tmp_path / "config.json"))
  (tmp_path / "model.tar.gz").write_bytes(b"")
  with pytest.raises(SavedModelNotFoundError, match=r"read with graftax.hub_io.load\(.*model.tar.gz"):
    read_saved_model(str(tmp_path / "model.tar.gz"))


@pytest.mark.parametrize("data", [b"\x89HDF\r\n\x1a\n", b"PK\x03\x04", b"", b"\n\x05\n\x01x\x12\x00", b"<html>"])
def test_a_file_of_another_kind_raises_by_its_first_byte(tmp_path, data):
  with pytest.raises(NotASavedModelError, match="not a SavedModel: it begins with"):
    read_saved_model(_write(tmp_path, data))


def test_a_huge_file_of_another_kind_is_not_read(tmp_path):
  with open(tmp_path / "saved_model.pb", "wb") as f:
    f.write(b"\x89HDF")
    f.truncate(1 << 34)
  with pytest.raises(NotASavedModelError):
    read_saved_model(str(tmp_path))


@pytest.mark.parametrize("length", [1, 3, 100, len(_MODULE) // 2, len(_MODULE) - 1])
def test_a_cut_off_file_is_damaged(tmp_path, length):
  with pytest.raises((DamagedSavedModelError, NotASavedModelError), match="saved_model.pb"):
    read_saved_model(_write(tmp_path, _MODULE[:length]))


def test_a_model_without_a_meta_graph_is_none(tmp_path):
  with pytest.raises(NotASavedModelError, match="holds no MetaGraph"):
    read_saved_model(_write(tmp_path, _MODULE[:2]))


def test_a_tf1_hub_module_has_no_schema_version(tmp_path):
  model = _model([], ["train"])
  model.ClearField("saved_model_schema_version")
  read = read_saved_model(_write(tmp_path, model.SerializeToString()))
  assert all_tags(read) == (frozenset(), frozenset({"train"}))


def test_a_later_schema_version_raises(tmp_path):
  model = _model(["serve"])
  model.saved_model_schema_version = 2
  with pytest.raises(UnsupportedSavedModelError, match="schema version 2; expected one of \\(0, 1\\)"):
    read_saved_model(_write(tmp_path, model.SerializeToString()))


def test_an_empty_model_in_chunks_is_damaged(tmp_path):
  with pytest.raises(DamagedSavedModelError, match="saved_model.cpb: the file is empty"):
    read_saved_model(_write(tmp_path, b"", "saved_model.cpb"))


def test_damaged_text_is_an_error(tmp_path):
  with pytest.raises(DamagedSavedModelError, match="in text form"):
    read_saved_model(_write(tmp_path, b"meta_graphs {", "saved_model.pbtxt"))


def test_structures_nested_without_end_are_damaged(tmp_path):
  value = b""
  for _ in range(5000):
    value = _field(b"\xa2\x03", _field(b"\x0a", value))  # a StructuredValue's tuple_value, and its values
  function = _field(b"\x1a", value)
  object_graph = _field(b"\x12", _field(b"\x12", function))
  data = b"\x08\x01" + _field(b"\x12", _field(b"\x3a", object_graph))
  with pytest.raises(DamagedSavedModelError):
    read_saved_model(_write(tmp_path, data))


def _field(tag: bytes, data: bytes) -> bytes:
  return tag + encode_varint(len(data)) + data


@pytest.mark.parametrize(
  ("tag_sets", "tags", "chosen"),
  [
    ([["train"]], None, 0),
    ([["serve"], ["serve", "gpu"]], None, 0),
    ([["serve"], ["serve", "gpu"]], ["gpu", "serve"], 1),
    ([["serve"], []], [], 1),
    ([["train"], ["serve"]], "serve", 1),
  ],
)
def test_a_meta_graph_is_chosen_by_exactly_its_tags(tag_sets, tags, chosen):
  model = _model(*tag_sets)
  assert choose_meta_graph(model, tags, "m") is model.meta_graphs[chosen]


@pytest.mark.parametrize(
  ("tag_sets", "tags", "message"),
  [
    ([["serve"]], "train", r"tags \['train'\]: 0 of 1 MetaGraphs match exactly; there are \[\['serve'\]\]"),
    ([["serve", "gpu"], ["train"]], None, r"no tags given: 0 .*\['gpu', 'serve'\], \['train'\]"),
    ([["serve"], ["serve"]], "serve", "2 MetaGraphs match"),
  ],
)
def test_unknown_tags_list_what_there_is(tag_sets, tags, message):
  with pytest.raises(UnknownTagsError, match=message):
    choose_meta_graph(_model(*tag_sets), tags, "m")


@hypothesis.settings(max_examples=200, deadline=2000)
@hypothesis.given(st.binary(max_size=300), st.sampled_from([b"", b"\x08\x01", b"\x08\x01\x12\x05"]))
def test_any_bytes_are_an_error_or_a_model(tmp_path_factory, data, start):
  folder = tmp_path_factory.mktemp("any")
  try:
    assert read_saved_model(_write(folder, start + data)).meta_graphs
  except SavedModelError:
    pass


@pytest.mark.parametrize(
  ("names", "given", "hint"),
  [
    (["frozen.pb", "other.pbtxt"], ".", r"There are graphs in \['.*frozen.pb', '.*other.pbtxt'\]; pass the path"),
    (["ckpt-7.index", "ckpt-7.data-00000-of-00001", "checkpoint"], ".", r"CheckpointReader\('.*ckpt-7'\)"),
    (["ckpt-7.index"], "ckpt-7.index", r"CheckpointReader\('.*ckpt-7'\)"),
    (["model.keras"], "model.keras", r"read_weights\('.*model.keras'\).*load_model\(path\).export\(folder\)"),
    (["a.weights.json"], "a.weights.json", r"read_weights\('.*a.weights.json'\)"),
    (["3/saved_model.pb"], ".", r"There are SavedModels in \['.*3'\]"),
  ],
)
def test_what_is_no_saved_model_is_told_what_reads_it(tmp_path, names, given, hint):
  for name in names:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b"")
  with pytest.raises(SavedModelNotFoundError, match=hint):
    read_saved_model(str(tmp_path / given) if given != "." else str(tmp_path))


def test_a_graph_in_place_of_a_model_is_told_what_converts_it(tmp_path):
  (tmp_path / "saved_model.pb").write_bytes(schema.GraphDef(node=[schema.NodeDef(name="x")]).SerializeToString())
  with pytest.raises(NotASavedModelError, match=r"convert\(pathlib.Path\('.*saved_model.pb'\).read_bytes\(\), inputs"):
    read_saved_model(str(tmp_path))


def test_a_pipe_is_not_a_model(tmp_path):
  os.mkfifo(tmp_path / "model")
  with pytest.raises(SavedModelNotFoundError, match="model: a pipe or a device; expected the folder"):
    read_saved_model(tmp_path / "model")
