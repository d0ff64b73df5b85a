"""`graftax rewrite`."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

from graftax.graphdef_ir import DType, Node, PartialShape, TensorRef, node_to_proto, schema
from graftax.savedmodel_io import load, save
from graftax.tools.cli import app
from graftax.tools.commands import check_rewritten
from graftax.xla_call_module import Module, lift


@pytest.fixture(scope="module")
def cuda_model(tmp_path_factory):
  path = tmp_path_factory.mktemp("models") / "cuda"
  save(path, (jnp.tanh, np.zeros((2, 3), np.float32)), platforms=["cuda"], gradient_order=1)
  return path


def _rewrite(*arguments):
  return CliRunner().invoke(app, ["rewrite", *map(str, arguments)])


def test_a_model_for_cuda_runs_on_the_cpu_afterwards(cuda_model, tmp_path):
  result = _rewrite(cuda_model, "--for", "tensorflow-2.15", "--platforms", "cpu", "-o", tmp_path / "copy")
  assert result.exit_code == 0, result.output
  assert "2 XlaCallModule nodes for tensorflow-2.15: 2 written in another version" in " ".join(result.output.split())
  function, params = load(tmp_path / "copy").convert("__call__")
  x = np.ones((2, 3), np.float32)
  np.testing.assert_allclose(function(params, x)[0], np.tanh(x), rtol=1e-6)


def test_an_existing_folder_is_replaced_only_with_force(cuda_model, tmp_path):
  (tmp_path / "copy").mkdir()
  (tmp_path / "copy" / "notes.txt").write_text("mine")
  result = _rewrite(cuda_model, "-o", tmp_path / "copy")
  assert result.exit_code == 1
  assert "exists already" in result.output


def test_an_unknown_consumer_or_platform_is_named(cuda_model, tmp_path):
  assert "'torch' is not known" in _rewrite(cuda_model, "--for", "torch", "-o", tmp_path / "copy").output
  result = _rewrite(cuda_model, "--platforms", "gpu", "-o", tmp_path / "copy")
  assert result.exit_code == 2
  assert "unknown platforms ['gpu']" in result.output


def test_an_exported_function_becomes_a_model(tmp_path):
  rows = jax.ShapeDtypeStruct(jax.export.symbolic_shape("rows, 3"), np.float32)
  exported = jax.export.export(jax.jit(lambda tree, x: tree["w"] * x), platforms=["cuda"])({"w": np.float32(0)}, rows)
  (tmp_path / "program.jax").write_bytes(exported.serialize())
  result = _rewrite(tmp_path / "program.jax", "--for", "tensorflow-2.18", "--platforms", "cpu", "-o", tmp_path / "copy")
  assert result.exit_code == 0, result.output
  function, params = load(tmp_path / "copy").convert()
  outputs, _ = function(params, args_0_w=np.float32(3), args_1=np.ones((2, 3), np.float32))
  np.testing.assert_array_equal(outputs["output_0"], np.full((2, 3), 3))


def test_arguments_whose_names_differ_only_by_case_and_64_bits_are_kept(tmp_path):
  with jax.enable_x64(True):
    exported = jax.export.export(jax.jit(lambda tree: tree["w"] - tree["W"]))({"w": np.ones(2), "W": np.ones(2)})
  (tmp_path / "program.jax").write_bytes(exported.serialize())
  assert _rewrite(tmp_path / "program.jax", "-o", tmp_path / "copy").exit_code == 0
  (signature,) = load(tmp_path / "copy").signatures.values()
  assert {name: spec.dtype.name for name, spec in signature.inputs.items()} == {
    "args_0_w": "DOUBLE",
    "args_0_w_input_1": "DOUBLE",
  }


@pytest.mark.parametrize("form", ["model", "program.jax"])
def test_what_a_converter_reads_has_only_its_ops_and_gradients_do_not_matter(tmp_path, form):
  x = jax.ShapeDtypeStruct((3,), np.float32)

  def gelu(x):
    return jax.nn.gelu(x, approximate=False)

  save(tmp_path / "model", (gelu, x), gradient_order=1)
  (tmp_path / "program.jax").write_bytes(jax.export.export(jax.jit(gelu))(x).serialize())
  result = _rewrite(tmp_path / form, "--for", "onnx", "-o", tmp_path / "copy")
  assert result.exit_code == 0, result.output
  model = load(tmp_path / "copy")
  (name,) = model.signatures["serving_default"].inputs
  function, params = model.convert()
  ((value,), _) = [results.values() for results in function(params, **{name: np.ones(3, np.float32)})]
  np.testing.assert_allclose(value, gelu(np.ones(3, np.float32)), rtol=1e-5)


def test_text_becomes_plain_ops(tmp_path):
  body = "%0 = stablehlo.tanh %x : tensor<3xf32> return %0 : tensor<3xf32>"
  (tmp_path / "model.mlir").write_text(f"func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {{ {body} }}")
  assert _rewrite(tmp_path / "model.mlir", "--for", "tflite", "-o", tmp_path / "copy").exit_code == 0
  model = load(tmp_path / "copy")
  assert not [
    node for function in model.graph.library.values() for node in function.nodes if node.op == "XlaCallModule"
  ]
  function, params = model.convert()
  np.testing.assert_allclose(function(params, input_0=np.ones(3, np.float32))[0]["output_0"], np.tanh(1), rtol=1e-6)


def test_a_frozen_graph_becomes_a_model(tmp_path):
  graph = schema.GraphDef()
  for node in (
    Node("x", "Placeholder", attrs={"dtype": DType.FLOAT, "shape": PartialShape((None, 2))}),
    Node("y", "Tanh", (TensorRef("x"),), attrs={"T": DType.FLOAT}),
  ):
    graph.node.append(node_to_proto(node))
  (tmp_path / "frozen.pb").write_bytes(graph.SerializeToString())
  assert _rewrite(tmp_path / "frozen.pb", "-o", tmp_path / "copy").exit_code == 0
  function, params = load(tmp_path / "copy").convert()
  outputs, _ = function(params, x=np.ones((1, 2), np.float32))
  np.testing.assert_allclose(outputs["y"], np.tanh(np.ones((1, 2))), rtol=1e-6)


def test_a_copy_whose_check_fails_stays_and_the_message_says_so(cuda_model, tmp_path, monkeypatch):
  def check(*_, **__):
    raise check_rewritten.RewriteCheckError("signature 'f': 'y' of the copy differs")

  monkeypatch.setattr(check_rewritten, "check_rewritten", check)
  result = _rewrite(cuda_model, "--platforms", "cpu", "-o", tmp_path / "copy", "--check")
  assert result.exit_code == 1
  first, second = result.output.splitlines()
  assert first == "error: signature 'f': 'y' of the copy differs"
  assert second.startswith(f"{tmp_path / 'copy'}: ") and second.endswith(" The copy stays there, not confirmed.")
  assert load(tmp_path / "copy").signatures


@pytest.mark.parametrize(
  ("name", "content", "message"),
  [
    ("noise", bytes(range(256)) * 8, "noise cannot be read as StableHLO: 2048 bytes are not a serialized"),
    (
      "model.py",
      b"import jax.numpy as jnp",
      "model.py cannot be read as StableHLO: StableHLO bytes of length 23 are dam",
    ),
    ("empty", b"", "empty cannot be read as StableHLO: the text is empty"),
    ("x.npy", b"\x93NUMPY\1\0" + bytes(99), "x.npy is an array of NumPy. Expected the folder of a SavedModel"),
    (
      "model.keras",
      b"PK\x03\x04" + bytes(99),
      "model.keras is a zip archive, such as a .keras or .npz file. In Keras, model.export",
    ),
    (
      "model.h5",
      b"\x89HDF\r\n\x1a\n" + bytes(99),
      "model.h5 is an HDF5 file, such as a Keras model. In Keras, model.export",
    ),
    (
      "weights",
      b"\x40" + bytes(7) + b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}' + b" " * 9 + bytes(4),
      "weights is a file of safetensors, which holds weights without a program. Expected the folder",
    ),
    ("model.tar.gz", b"\x1f\x8b" + bytes(99), "model.tar.gz is a compressed file. If it is an archive, unpack it"),
    ("missing", None, "missing: no such file or folder. Expected the folder of a SavedModel, a frozen graph"),
    ("missing.pb", None, "missing.pb: no such file or folder. Expected the folder of a SavedModel, a frozen graph"),
  ],
)
def test_what_is_no_model_is_named_beside_what_works(tmp_path, name, content, message):
  if content is not None:
    (tmp_path / name).write_bytes(content)
  result = _rewrite(tmp_path / name, "-o", tmp_path / "copy")
  assert result.exit_code == 1
  assert result.output.startswith("error: ") and f"/{message}" in result.output
  assert "(.pb, .pbtxt), the .meta file of a TF1 checkpoint, or a file of StableHLO" in result.output
  assert not (tmp_path / "copy").exists()


def _manifest(folder):
  return json.loads((folder / "manifest.json").read_text())["functions"]


def test_a_model_becomes_stablehlo_of_given_sizes(tmp_path):
  rows = jax.ShapeDtypeStruct(jax.export.symbolic_shape("rows, 3"), np.float32)
  model = tmp_path / "saved_model.2"  # a folder that begins as the file in one
  save(model, (lambda w, x: x @ w, rows), np.ones((3, 2), np.float32), gradient_order=0)
  result = _rewrite(model, "--for", "stablehlo-1.9.1", "--batch", 4, "-o", tmp_path / "copy")
  assert "StableHLO 1.9.1 for cpu, with weights inside" in " ".join(result.output.split())
  function = _manifest(tmp_path / "copy")["serving_default"]
  assert [argument["shape"] for argument in function["arguments"]] == [[4, 3]]
  data = (tmp_path / "copy" / function["file"]).read_bytes()
  np.testing.assert_array_equal(lift(Module.from_bytes(data))(np.ones((4, 3), np.float32))[0], np.full((4, 2), 3))


def test_a_function_and_an_exported_program_become_stablehlo(tmp_path):
  (tmp_path / "model.py").write_text("def double(params, x):\n  return x * params\n\n\nTWO = 2.0\n")
  arguments = ["--input", "x=float32[rows,3]", "--params", "TWO", "--weights", "beside"]
  result = _rewrite(f"{tmp_path / 'model.py'}:double", "--for", "stablehlo", *arguments, "-o", tmp_path / "copy")
  assert result.exit_code == 0, result.output
  refused = _rewrite(
    f"{tmp_path / 'model.py'}:double", "--for", "stablehlo", *arguments, "--batch", 3, "-o", tmp_path / "b"
  )
  assert refused.exit_code == 1 and "--batch and --shape are for models; the sizes" in " ".join(refused.output.split())
  main = _manifest(tmp_path / "copy")["main"]
  assert [(a["kind"], a["shape"]) for a in main["arguments"]] == [("parameter", []), ("input", ["rows", 3])]
  rows = jax.ShapeDtypeStruct(jax.export.symbolic_shape("rows, 3"), np.float32)
  (tmp_path / "program.jax").write_bytes(jax.export.export(jax.jit(jnp.tanh))(rows).serialize())
  for options, shape in (([], ["rows", 3]), (["--shape", "args_0=5,?"], [5, 3])):
    result = _rewrite(tmp_path / "program.jax", "--for", "stablehlo", *options, "-f", "-o", tmp_path / "copy")
    assert result.exit_code == 0, result.output
    assert _manifest(tmp_path / "copy")["main"]["arguments"][0]["shape"] == shape


def test_a_function_is_written_for_a_converter(tmp_path):
  (tmp_path / "model.py").write_text("import jax\n\n\ndef rem(x, y):\n  return jax.lax.rem(x, y)\n")
  inputs = ["--input", "x=float32[2]", "--input", "y=float32[2]"]
  result = _rewrite(f"{tmp_path / 'model.py'}:rem", "--for", "tflite", *inputs, "-o", tmp_path / "copy")
  assert result.exit_code == 0, result.output
  assert sorted(load(tmp_path / "copy").signatures["serving_default"].inputs) == ["x", "y"]


@pytest.mark.parametrize(
  "arguments, message",
  [
    (["--for", "onnx", "--batch", "3"], "--batch, --shape, --constraint and --weights are for --for stablehlo"),
    (["--for", "stablehlo", "--shape", "y=3"], "--shape 'y=3': no input has this name"),
    (["--for", "stablehlo", "--platforms", "cpu,cuda"], "a file of StableHLO is for one platform"),
    (["--for", "stablehlo", "--check"], "--check runs a copy of a model"),
    (["--for", "onnx", "--params", "w"], "--input and --params are for a JAX function"),
    (["--for", "onnx", "--platforms", "cpu"], "platforms ['cpu'] cannot be chosen for 'onnx'"),
    (["--for", "tensorflow", "--gradient-order", 1], "--gradient-order is for files of StableHLO and JAX functions"),
    (["--for", "stablehlo", "--gradient-order", 2], "a release of it, or plain, not for stablehlo"),
  ],
)
def test_options_that_do_not_fit_are_named(cuda_model, tmp_path, arguments, message):
  _check_refused(cuda_model, arguments, message, tmp_path / "copy")


@pytest.mark.parametrize(
  "arguments, message",
  [
    (["--for", "tflite", "--gradient-order", 0], "a release of it, or plain, not for tflite"),
    (["--for", "tfjs", "--platforms", "tpu"], "platforms ['tpu'] cannot be chosen for 'tfjs'"),
    (["--for", "tensorflow", "--allow-files-in", "."], "--allow-files-in is for SavedModels and graphs"),
    (["--for", "stablehlo", "--weights", "beside"], "Those of a file of StableHLO are constants in its code"),
  ],
)
def test_options_that_do_not_fit_a_file_of_stablehlo_are_named(tmp_path, arguments, message):
  (tmp_path / "model.mlir").write_text("func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }")
  _check_refused(tmp_path / "model.mlir", arguments, message, tmp_path / "copy")


def _check_refused(model, arguments, message, out):
  result = _rewrite(model, *arguments, "-o", out)
  assert result.exit_code == 1
  assert message in " ".join(result.output.split())
  assert not out.exists()


@pytest.mark.parametrize("order", [0, 1])
def test_plain_ops_have_as_many_derivatives_as_are_asked_for(tmp_path, order):
  body = "%0 = stablehlo.tanh %x : tensor<f32> return %0 : tensor<f32>"
  (tmp_path / "model.mlir").write_text(f"func.func @main(%x: tensor<f32>) -> tensor<f32> {{ {body} }}")
  arguments = ["--for", "plain", "--platforms", "cpu,tpu", "--gradient-order", order]
  assert _rewrite(tmp_path / "model.mlir", *arguments, "-o", tmp_path / "copy").exit_code == 0
  ops = {node.op for function in load(tmp_path / "copy").graph.library.values() for node in function.nodes}
  assert ("PreventGradient" in ops) == (order == 0)
