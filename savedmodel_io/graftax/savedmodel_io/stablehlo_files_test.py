"""Files of StableHLO, read again and called with what their manifest says."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.convert import ConversionError
from graftax.convert.rewriting import rewrite_graph
from graftax.graphdef_ir import schema
from graftax.savedmodel_io import JaxFunction, load, read_safetensors, rewrite, save, write_stablehlo
from graftax.savedmodel_io.errors import OutputExistsError, SaveInputError

xla_call_module = pytest.importorskip("graftax.xla_call_module")  # convert requires it, and brings it

_X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
_PARAMS = {"dense": {"w": np.float32([[1, 2], [3, 4], [5, 6]])}, "bias": np.float32(0.5)}


def _predict(params, x):
  return {"scores": jnp.tanh(x @ params["dense"]["w"] + params["bias"])}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
  path = tmp_path_factory.mktemp("models") / "model"
  rows = jax.ShapeDtypeStruct(jax.export.symbolic_shape("rows, 3"), np.float32)
  functions = {
    "predict": (_predict, rows),
    "count": JaxFunction(lambda n: n + 2**40, [np.int64(1)], takes_params=False),
  }
  with jax.enable_x64(True):
    save(path, functions, _PARAMS, signatures={"predict": "predict", "of/count": "count"}, gradient_order=0)
  return load(path)


def _call(folder, name, *inputs):
  """Calls a file as its manifest says, and returns its results and its record."""
  record = json.loads((folder / "manifest.json").read_text())["functions"][name]
  data = (folder / record["file"]).read_bytes()
  assert f"StableHLO_v{record['stablehlo_version']}".encode() in data
  given = iter(inputs)
  stored = read_safetensors(folder / "parameters.safetensors") if (folder / "parameters.safetensors").exists() else {}
  values = [stored[a["name"]] if a["kind"] == "parameter" else next(given) for a in record["arguments"]]
  with jax.enable_x64(True):
    return [np.asarray(y) for y in xla_call_module.lift(xla_call_module.Module.from_bytes(data))(*values)], record


def test_files_have_short_names_in_the_folder_whatever_functions_are_called(tmp_path):
  names = ("../../x", "..", "", "\N{LATIN SMALL LETTER A WITH DIAERESIS}" * 99, "a" * 999)
  write_stablehlo(tmp_path / "out", {name: (lambda x: x, _X) for name in names})
  files = [entry["file"] for entry in json.loads((tmp_path / "out/manifest.json").read_text())["functions"].values()]
  assert sorted([*files, "manifest.json"]) == sorted(path.name for path in (tmp_path / "out").iterdir())
  assert files[:3] == ["_x.mlirbc", "_.mlirbc", "__1.mlirbc"] and max(len(file.encode()) for file in files) < 120


@pytest.mark.parametrize("weights", ["inside", "beside"])
def test_each_signature_of_a_model_is_a_file(model, tmp_path, weights):
  versions = write_stablehlo(tmp_path / "out", model, weights=weights)
  assert versions == ("0.17.7",)
  (scores,), record = _call(tmp_path / "out", "predict", _X)
  np.testing.assert_allclose(scores, _predict(_PARAMS, _X)["scores"], rtol=1e-6)
  kinds = [(a["kind"], a["name"], a["shape"]) for a in record["arguments"]]
  parameters = [("parameter", "bias", []), ("parameter", "dense/w", [3, 2])]
  assert kinds == [*(parameters if weights == "beside" else []), ("input", "x", ["batch", 3])]
  assert record["results"] == [{"kind": "result", "name": "scores", "dtype": "float32", "shape": ["batch", 2]}]
  (count,), record = _call(tmp_path / "out", "of/count", np.int64(5))
  assert record["file"] == "of_count.mlirbc"
  assert count == 2**40 + 5
  assert count.dtype == np.int64


def test_sizes_and_the_version_are_those_that_are_given(model, tmp_path):
  shapes = {"predict": {"x": jax.ShapeDtypeStruct((2, 3), np.float32)}}
  assert write_stablehlo(tmp_path / "out", model, inputs=shapes, version="1.3.0") == ("1.3.0",)
  (scores,), record = _call(tmp_path / "out", "predict", _X)
  assert record["arguments"][0]["shape"] == [2, 3]
  np.testing.assert_allclose(scores, _predict(_PARAMS, _X)["scores"], rtol=1e-6)
  with pytest.raises(xla_call_module.VersionError, match=r"99\.0\.0 cannot be written"):
    write_stablehlo(tmp_path / "other", model, version="99.0.0")
  assert not (tmp_path / "other").exists()


def test_jax_functions_have_flat_named_arguments_and_results(tmp_path):
  def function(params, pair, *, scale):
    return (pair["a"] * scale, {"b": pair["b"] + params["bias"]})

  pair = {"a": np.ones(2, np.float32), "b": np.ones(3, np.float32)}
  write_stablehlo(
    tmp_path / "out", {"f": JaxFunction(function, [pair], {"scale": np.float32(2)})}, _PARAMS, weights="beside"
  )
  (a, b), record = _call(tmp_path / "out", "f", pair["a"], pair["b"], np.float32(2))
  np.testing.assert_array_equal(a, [2, 2])
  np.testing.assert_array_equal(b, [1.5, 1.5, 1.5])
  assert [argument["name"] for argument in record["arguments"][2:]] == ["input/0/a", "input/0/b", "scale"]
  assert [result["name"] for result in record["results"]] == ["0", "1/b"]


def test_only_a_folder_of_stablehlo_is_replaced(tmp_path):
  function = (jnp.tanh, _X)
  write_stablehlo(tmp_path / "out", function)
  with pytest.raises(OutputExistsError):
    write_stablehlo(tmp_path / "out", function)
  write_stablehlo(tmp_path / "out", function, overwrite=True)
  (tmp_path / "mine").mkdir()
  (tmp_path / "mine" / "notes.txt").write_text("mine")
  with pytest.raises(OutputExistsError):
    write_stablehlo(tmp_path / "mine", function, overwrite=True)


@pytest.mark.parametrize(
  "arguments, message",
  [
    ({"weights": "above"}, "weights='above'"),
    ({"params": {}}, "params are given for a model"),
    ({"inputs": {"predict": {"y": _X}}}, r"shapes are given for \['y'\]; the inputs are \['x'\]"),
    ({"inputs": {"absent": {}}}, r"inputs names \['absent'\]"),
  ],
)
def test_wrong_arguments_are_named(model, tmp_path, arguments, message):
  with pytest.raises(SaveInputError, match=message):
    write_stablehlo(tmp_path / "out", model, **arguments)


@pytest.mark.parametrize(
  ("functions", "platform", "error", "message"),
  [
    ({}, "cpu", SaveInputError, "no functions"),
    # The first positional argument, and what a keyword argument of the name "input" has first.
    (
      JaxFunction(lambda a, input: a, args=(_X,), kwargs={"input": [_X]}),
      "cpu",
      SaveInputError,
      "same name.*'input/0'",
    ),
    ((lambda x: x, _X), "gpu", ConversionError, "platform 'gpu' is not known"),
  ],
)
def test_what_would_be_written_wrong_is_named(functions, platform, error, message, tmp_path):
  with pytest.raises(error, match=message):
    write_stablehlo(tmp_path / "out", functions, platform=platform)
  assert not (tmp_path / "out").exists()


def test_a_graph_cannot_be_rewritten_as_stablehlo(model, tmp_path):
  with pytest.raises(ConversionError, match="write_stablehlo"):
    rewrite_graph(schema.GraphDef(), "stablehlo")
  with pytest.raises(ConversionError, match="write_stablehlo"):
    rewrite(model.path, tmp_path / "out", "stablehlo-1.9.1")
