import shutil
import subprocess
import sys
from pathlib import Path

import hypothesis
import jax
import numpy as np
import pytest
from hypothesis import strategies as st

from graftax.convert import ConversionError, convert
from graftax.graphdef_ir import DType, GraftaxError, PartialShape, TensorSpec
from graftax.savedmodel_io.errors import (
  AmbiguousFunctionError,
  CheckpointNotFoundError,
  DamagedCheckpointError,
  DamagedSavedModelError,
  MissingShardError,
  UnknownFunctionError,
  UnknownNameError,
  UnknownSignatureError,
  UnknownTagsError,
)
from graftax.savedmodel_io.objects.captures import AssetCapture, ConstantCapture, ResourceCapture, VariableCapture
from graftax.savedmodel_io.objects.type_specs import RaggedTensorSpec, SparseTensorSpec
from graftax.savedmodel_io.saved_model import load

_DATA = Path(__file__).parent / "testdata/2026_11_21"


@pytest.fixture(scope="module")
def module():
  return load(_DATA / "module")


def _copy(name: str, tmp_path: Path) -> Path:
  return Path(shutil.copytree(_DATA / name, tmp_path / name))


def test_variables_are_memory_mapped_by_name(module):
  assert {name: value.tolist() for name, value in module.variables.items()} == {
    "w": [[1, 2], [3, 4]],
    "frozen": [5, 6],
    "w_1": 7,
    "w_2": 8,
  }
  assert not any(value.flags.owndata or value.flags.writeable for value in module.variables.values())
  assert module.variables.info("w_2").path == ("layers", "1", "w")
  assert [info.trainable for info in module.variables.infos.values()] == [True, False, True, True]


def test_functions_are_found_by_attribute_path(module):
  assert sorted(module.functions) == ["composites", "layers.0.call", "layers.1.call", "look_up", "nested", "predict"]
  assert module.functions["layers[1].call"] is module.functions["layers.1.call"]
  (call,) = module.functions["layers[1].call"].concrete_functions
  assert call.captures == (VariableCapture("w_2"),)
  assert "layers[2].call" not in module.functions and "layers" not in module.functions


def test_an_unknown_function_lists_all(module):
  with pytest.raises(UnknownFunctionError, match="no restored function at 'call'; there are: 'composites', "):
    module.functions["call"]


def test_a_function_has_all_its_traces_with_python_values(module):
  nested = module.functions["nested"]
  assert str(nested.spec.signature) == "(x, training=False, *, scale=2.0)"
  assert [(str(f.args[0]), f.args[1], f.kwargs) for f in nested.concrete_functions] == [
    ("float32[1, 2]", False, {"scale": 2.0}),
    ("float32[3, 2]", True, {"scale": 3.0}),
  ]


def test_nested_results_keep_their_structure(module):
  outputs = module.functions["nested"].concrete_functions[0].outputs
  x, (again, nothing) = outputs["rest"]
  assert list(outputs) == ["rest", "y"]
  assert (str(x), str(again), nothing) == ("float32[1, 2]", "float32[1, 2]", None)
  assert len(module.functions["nested"].concrete_functions[0].output_specs) == 3


def test_captures_are_variables_constants_tables(module):
  first = module.functions["nested"].concrete_functions[0]
  variable, constant = first.captures
  assert variable == VariableCapture("w")
  assert isinstance(constant, ConstantCapture) and constant.value.numpy().tolist() == [10, 20]
  resources = [
    c.name for c in module.functions["look_up"].concrete_functions[0].captures if isinstance(c, ResourceCapture)
  ]
  assert sorted(resources) == ["table", "words"]


def test_resources_name_the_functions_that_make_and_fill_them(module):
  table = module.resources["table"]
  handle, keys, values = table.initialize.captures
  assert handle == ResourceCapture("table")
  assert keys.value.numpy().tolist() == [b"a", b"b"] and values.value.numpy().tolist() == [1, 2]
  assert table.create.output_specs[0].dtype == DType.RESOURCE
  (asset,) = [c for c in module.resources["words"].initialize.captures if isinstance(c, AssetCapture)]
  assert asset.path.read_text() == "red\ngreen\n"


def test_assets_are_paths(module):
  assert {name: path.name for name, path in module.assets.items()} == {"module_words.txt": "module_words.txt"}


def test_composite_arguments_are_typed_leaves(module):
  (composites,) = module.functions["composites"].concrete_functions
  ragged, sparse = composites.args
  assert isinstance(ragged, RaggedTensorSpec) and isinstance(sparse, SparseTensorSpec)
  function = module.graph.library[composites.name]
  assert [spec.dtype for spec in composites.input_specs] == [p.dtype for p in function.parameters]
  assert [spec.dtype for spec in composites.output_specs] == [r.dtype for r in function.results]


@pytest.mark.parametrize("name", ["module", "keras_export"])
def test_every_concrete_function_fits_its_graph_function(name):
  model = load(_DATA / name)
  concrete = [f for function in model.functions.values() for f in function.concrete_functions]
  concrete += [signature.function for signature in model.signatures.values()]
  concrete += [resource.initialize for resource in model.resources.values()]
  assert concrete
  for f in concrete:
    graph_function = model.graph.library[f.name]
    specs = f.input_specs
    assert len(graph_function.parameters) == len(specs) + len(f.captures)
    assert [p.dtype for p in graph_function.parameters[: len(specs)]] == [spec.dtype for spec in specs]
    assert [r.dtype for r in graph_function.results] == [spec.dtype for spec in f.output_specs]


def test_signatures_have_named_inputs_and_outputs(module):
  assert list(module.signatures) == ["look_up", "serving_default"]
  signature = module.signatures["serving_default"]
  assert {key: str(spec) for key, spec in signature.inputs.items()} == {"x": "float32[?, 2]"}
  assert {key: str(spec) for key, spec in signature.outputs.items()} == {"y": "float32[?, 2]"}
  assert signature.function.kwargs.keys() == {"x"} and signature.function.args == ()
  assert signature.function.captures == (VariableCapture("w"), VariableCapture("frozen"))
  assert isinstance(signature.inputs["x"], TensorSpec)


def test_an_unknown_signature_lists_all(module):
  with pytest.raises(UnknownSignatureError, match="no signature 'serve'; there are: 'look_up', 'serving_default'"):
    module.signatures["serve"]


def test_a_tf1_signature_names_graph_tensors():
  model = load(_DATA / "tf1_partitioned", ["serve"])
  signature = model.signatures["serving_default"]
  assert signature.function is None
  assert [str(ref) for ref in signature.input_tensors["x"]] == ["x"]
  assert [str(ref) for ref in signature.output_tensors["y"]] == ["y"]
  assert model.graph.node("x").op == "Placeholder"
  assert not model.functions and not model.resources


def test_several_tag_sets_are_told_apart():
  assert load(_DATA / "tf1_partitioned").tags == {"serve"}
  assert load(_DATA / "tf1_partitioned", ["gpu", "serve"]).tags == {"serve", "gpu"}
  with pytest.raises(UnknownTagsError, match=r"\['serve'\], \['gpu', 'serve'\]"):
    load(_DATA / "tf1_partitioned", "train")


def test_a_keras_export_gives_plain_names_to_the_variables_it_uses():
  model = load(_DATA / "keras_export")
  used = [capture.name for capture in model.signatures["serving_default"].function.captures]
  head, norm = ["bias", "kernel"], ["beta", "gamma", "moving_mean", "moving_variance"]
  assert sorted(used) == [f"sequential/head/{name}" for name in head] + [f"sequential/norm/{name}" for name in norm]
  # Keras saves each variable twice; the copies are not lost.
  np.testing.assert_array_equal(model.variables["sequential/head/kernel_1"], model.variables["sequential/head/kernel"])
  assert model.variables.info("sequential/head/kernel").path[0] == "variables"


def test_a_model_without_its_variables_is_an_error(tmp_path):
  folder = _copy("module", tmp_path)
  shutil.rmtree(folder / "variables")
  with pytest.raises(CheckpointNotFoundError, match="the model has 4 variables; copy the folder 'variables'"):
    load(folder)


def test_a_missing_or_short_shard_is_found_by_load(tmp_path):
  folder = _copy("module", tmp_path)
  shard = folder / "variables/variables.data-00000-of-00001"
  data = shard.read_bytes()
  shard.write_bytes(data[:-1])
  with pytest.raises(DamagedCheckpointError, match="cut off"):
    load(folder)
  shard.unlink()
  with pytest.raises(MissingShardError, match="shard 0 of 1"):
    load(folder)


def test_a_checkpoint_of_another_model_is_an_error(tmp_path):
  folder = _copy("module", tmp_path)
  shutil.rmtree(folder / "variables")
  shutil.copytree(_DATA / "keras_export/variables", folder / "variables")
  with pytest.raises((CheckpointNotFoundError, DamagedSavedModelError), match="variable"):
    _ = load(folder).variables["w"]


_MODULE = (_DATA / "module/saved_model.pb").read_bytes()


@hypothesis.settings(max_examples=150, deadline=5000)
@hypothesis.given(
  st.lists(st.tuples(st.integers(0, len(_MODULE) - 1), st.integers(0, 255)), min_size=1, max_size=4),
  st.integers(0, 3 * len(_MODULE)),
)
def test_a_damaged_model_is_an_error_or_a_model(tmp_path_factory, changes, length):
  folder = tmp_path_factory.mktemp("damaged") / "module"
  shutil.copytree(_DATA / "module", folder)
  data = bytearray(_MODULE)
  for position, value in changes:
    data[position] = value
  (folder / "saved_model.pb").write_bytes(data[:length])
  try:
    model = load(folder)
    _ = dict(model.variables), dict(model.signatures), dict(model.functions), dict(model.resources), model.fingerprint
  except GraftaxError:
    pass


def test_loading_imports_no_tensorflow():
  code = f"""
import sys
from graftax.savedmodel_io import load
model = load({str(_DATA / "module")!r})
dict(model.variables), dict(model.signatures), dict(model.functions), model.graph
assert not any(name.partition(".")[0] in ("tensorflow", "keras") for name in sys.modules)
"""
  subprocess.run([sys.executable, "-c", code], check=True)


def test_signatures_and_functions_are_shown_in_a_line_each(module):
  shown = str(module.signatures)
  assert shown.splitlines()[0] == "<Signatures>" and len(shown.splitlines()) == 1 + len(module.signatures)
  for signature in module.signatures.values():
    assert repr(signature) in shown and len(repr(signature)) < 200
    assert repr(signature).startswith(f"<Signature {signature.name}(")
    assert all(f"{name}: {spec}" in repr(signature) for name, spec in signature.inputs.items())
  for path, function in module.functions.items():
    assert repr(function).startswith(f"<RestoredFunction {path}(") and repr(function).endswith(("trace>", "traces>"))
    for concrete in function.concrete_functions:
      assert repr(concrete).startswith(f"<ConcreteFunction {concrete.name}: (") and len(repr(concrete)) < 400


def test_a_signature_and_a_function_of_one_name_are_told_apart():
  model = load(_DATA / "keras_export")
  x = np.ones((3, 2), np.float32)
  by_signature, params = model.convert("serve")
  by_function, _ = model.convert(model.functions["serve"])
  again, _ = model.convert(model.signatures["serve"], features=TensorSpec(PartialShape((3, 2)), DType.FLOAT))
  wanted = by_signature(params, features=x)[0]["output_0"]
  np.testing.assert_array_equal(by_function(params, x)[0], wanted)
  np.testing.assert_array_equal(again(params, features=x)[0]["output_0"], wanted)
  other = load(_DATA / "keras_export")
  for entry in (other.functions["serve"], other.signatures["serve"]):
    with pytest.raises(UnknownSignatureError, match="does not belong to this model"):
      model.convert(entry)


def test_names_that_are_not_there_are_answered_with_near_ones(module):
  with pytest.raises(UnknownNameError, match="no variable 'ww'; there are: 'w', "):
    module.variables["ww"]
  with pytest.raises(UnknownNameError, match="no resource 'tabel'; there are: 'table', "):
    module.resources["tabel"]
  with pytest.raises(
    UnknownSignatureError, match="'predicts'; of signatures there are: .*; of functions .*: 'predict', "
  ):
    module.convert("predicts")
  assert module.variables.get("ww") is None and module.resources.get("tabel") is None


def test_options_that_are_no_options_are_told_what_they_are(module):
  with pytest.raises(AmbiguousFunctionError, match=r"no inputs \['options'\].*options=ConvertOptions"):
    module.convert("serving_default", options={"strict_shape_check": False})
  with pytest.raises(AmbiguousFunctionError, match=r"no inputs \['training'\].* a single trace"):
    module.convert("serving_default", training=True)


def test_a_loaded_model_given_to_convert_is_told_how_it_is_converted(module):
  for given in (module, module.signatures["serving_default"], module.functions["predict"]):
    with pytest.raises(ConversionError, match=r"model.convert\(.*model.program\(name\)"):
      convert(given)


def test_a_part_between_named_tensors_is_converted():
  model = load(_DATA / "keras_export")
  inner = "StatefulPartitionedCall/sequential_1/norm_1/batchnorm/add_1"
  whole, params = model.convert()
  features = np.ones((2, *whole.structured_inputs[1]["features"].shape.dims[1:]), np.float32)
  normalize, _ = model.convert(outputs_at={"normal": inner})
  classify, _ = model.convert(inputs_at={"normal": inner}, outputs_at=None)
  normal, _ = normalize(params, features=features)
  results, _ = classify(params, **normal)
  np.testing.assert_allclose(results["output_0"], whole(params, features=features)[0]["output_0"], rtol=1e-6)
  with pytest.raises(ConversionError, match="has no tensors"):
    model.convert(inputs_at="nothing")


def test_progress_counts_the_bytes_of_the_variables_of_a_function(capsys):
  calls = []
  model = load(_DATA / "keras_export", progress=lambda done, total: calls.append((done, total)))
  assert not calls
  _, params = model.convert()
  total = sum(value.nbytes for value in params.values())
  assert [size for _, size in calls] == [total] * len(params)
  assert [done for done, _ in calls] == np.cumsum([value.nbytes for value in params.values()]).tolist()
  load(_DATA / "keras_export").convert()
  assert not capsys.readouterr().err
  load(_DATA / "keras_export", progress=True).convert()
  assert "reading variables: 100%" in capsys.readouterr().err


def test_symbolic_sizes_of_a_spec_for_a_signature_are_open():
  model = load(_DATA / "keras_export")
  (name,) = model.signatures["serving_default"].inputs
  shape = model.signatures["serving_default"].inputs[name].shape.dims
  spec = jax.ShapeDtypeStruct((*jax.export.symbolic_shape("batch"), *shape[1:]), np.float32)
  function, params = model.convert("serving_default", **{name: spec})
  for size in (1, 3):
    outputs, _ = function(params, **{name: np.ones((size, *shape[1:]), np.float32)})
    assert next(iter(outputs.values())).shape[0] == size
