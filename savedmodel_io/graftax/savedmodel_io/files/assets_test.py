from pathlib import Path

import pytest

from graftax.graphdef_ir import schema
from graftax.savedmodel_io.errors import DamagedSavedModelError
from graftax.savedmodel_io.files.assets import read_assets


def _meta_graph(*filenames: str) -> schema.MetaGraphDef:
  records = [
    schema.AssetFileDef(filename=name, tensor_info=schema.TensorInfo(name=f"Const_{i}:0"))
    for i, name in enumerate(filenames)
  ]
  return schema.MetaGraphDef(asset_file_def=records)


@pytest.mark.parametrize("folder", ["model", "/models/model", "a/../model", "."])
def test_assets_lie_in_the_assets_folder(folder):
  assets = read_assets(_meta_graph("words.txt", "more/words.txt"), folder)
  assert dict(assets) == {
    "words.txt": Path(folder, "assets", "words.txt"),
    "more/words.txt": Path(folder, "assets", "more", "words.txt"),
  }
  assert [asset.tensor for asset in assets.entries] == ["Const_0:0", "Const_1:0"]


@pytest.mark.parametrize("name", ["", ".", "..", "../key", "/etc/passwd", "a/../../key", "a\0b", "a/.."])
def test_a_name_that_leads_out_of_the_folder_raises(name):
  with pytest.raises(DamagedSavedModelError, match="asset file name"):
    read_assets(_meta_graph(name), "model")


def test_old_models_keep_their_assets_in_a_collection():
  meta_graph = schema.MetaGraphDef()
  record = schema.AssetFileDef(filename="words.txt").SerializeToString()
  meta_graph.collection_def["saved_model_assets"].any_list.value.add(value=record)
  assert list(read_assets(meta_graph, "model")) == ["words.txt"]
  meta_graph.collection_def["saved_model_assets"].any_list.value.add(value=b"\xff")
  with pytest.raises(DamagedSavedModelError, match="saved_model_assets"):
    read_assets(meta_graph, "model")
