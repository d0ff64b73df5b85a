import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import jax
import numpy as np
import pytest
from jax import export
from safetensors.flax import load_file
from typer.testing import CliRunner

from graftax.graphdef_ir import schema
from graftax.ops_jax import lowering, register
from graftax.tools import __version__
from graftax.tools.cli import app
from graftax.tools.examples.digits import load_digits, model_path
from graftax.tools.facts.doctor import diagnose

_MODEL = str(model_path())
_TEXT_MODEL = Path(__file__).parents[4] / "savedmodel_io/graftax/savedmodel_io/testdata/2026_11_21/module"
_CLASSIFIER = _TEXT_MODEL.parents[1] / "2026_11_23/classifier"
_TF1_MODULE = Path(__file__).parents[4] / "hub_io/graftax/hub_io/testdata/2026_11_22/tf1_module"


def _run(*arguments):
  # Test processes that run beside each other have COLUMNS; without it the width is that for pipes.
  return CliRunner(env={"COLUMNS": None}).invoke(app, [str(argument) for argument in arguments])


def _process(*arguments, **options):
  environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
  return subprocess.run(
    [sys.executable, *map(str, arguments)], env=environment, capture_output=True, text=True, timeout=300, **options
  )


@pytest.fixture
def images(tmp_path):
  path = tmp_path / "images.npy"
  np.save(path, load_digits().test_images[:5])
  return path


@pytest.fixture
def model_with_unknown_op(tmp_path):
  """The digits model with an op in place of MaxPool that nobody has."""
  folder = tmp_path / "unknown_op"
  (folder / "variables").mkdir(parents=True)
  for file in (model_path() / "variables").iterdir():
    (folder / "variables" / file.name).write_bytes(file.read_bytes())
  message = schema.SavedModel.FromString((model_path() / "saved_model.pb").read_bytes())
  graph = message.meta_graphs[0].graph_def
  for node in (node for function in graph.library.function for node in function.node_def):
    if node.op == "MaxPool":
      node.op = "CompanySecret"
  (folder / "saved_model.pb").write_bytes(message.SerializeToString())
  return folder


def test_help_teaches_with_examples():
  assert "graftax convert my_model --out my_model_jax" in _run("--help").stdout
  for command in ("inspect", "run", "convert"):
    shown = _run(command, "--help")
    assert shown.exit_code == 0
    assert f"graftax {command} my_model" in shown.stdout
  assert "a pattern, such as *Scatter*." in " ".join(re.sub("[│|]", "", _run("ops", "--help").stdout).split())


def test_help_starts_without_jax():
  code = (
    "import sys; import graftax.tools.cli; print([m for m in ('jax', 'numpy', 'google.protobuf') if m in sys.modules])"
  )
  assert _process("-c", code).stdout.strip() == "[]"


def test_wrong_usage_is_2():
  assert _run("inspect").exit_code == 2
  assert _run("inspect", _MODEL, "--no-such-option").exit_code == 2
  assert _run("run", _MODEL, "--batch-size", "0").exit_code == 2
  assert _run("convert", _MODEL).exit_code == 2
  abacus = _run("convert", _MODEL, "--out", "never_made", "--platforms", "cpu,abacus")
  assert abacus.exit_code == 2
  assert "unknown platforms ['abacus']" in " ".join(abacus.stderr.split())


def test_inspect_shows_signatures_parameters_and_ops():
  shown = _run("inspect", _MODEL)
  assert shown.exit_code == 0
  for text in ("serving_default", "images: float32[?, 8, 8, 1]", "digits/conv1/kernel", "[3, 3, 1, 16]", "576 bytes",
               "not trainable", "that no signature reads, shown with --all", "19 ops, 19 of them supported",
               "Conv2D x2"):  # fmt: skip
    assert text in shown.stdout


def test_inspect_json_holds_the_same():
  report = json.loads(_run("inspect", _MODEL, "--json").stdout)
  assert report["signatures"][1]["name"] == "serving_default"
  assert report["signatures"][1]["inputs"] == [{"name": "images", "dtype": "float32", "shape": [None, 8, 8, 1]}]
  assert {"op": "Conv2D", "count": 2, "supported": True, "on_host": False} in report["ops"]
  kernel = next(p for p in report["parameters"] if p["name"] == "digits/conv1/kernel")
  assert kernel["size_bytes"] == 576
  assert kernel["is_used"]


def test_inspect_traces_on_shapes_if_asked():
  shown = _run("inspect", _MODEL, "--trace", "--all")
  assert shown.exit_code == 0
  assert "yes; traces for any batch" in shown.stdout
  assert "in no signature" in shown.stdout


def test_inspect_names_ops_without_a_lowering(model_with_unknown_op):
  shown = _run("inspect", model_with_unknown_op)
  assert shown.exit_code == 0
  assert "no: CompanySecret without a lowering" in " ".join(shown.stdout.split())
  assert "19 ops, 18 of them supported" in shown.stdout


def test_inspect_says_why_an_op_blocks_and_what_works(model_with_unknown_op):
  (signature, *_) = json.loads(_run("inspect", model_with_unknown_op, "--json").output)["signatures"]
  (blocker,) = signature["verdict"]["blockers"]
  assert blocker["op"] == "CompanySecret"
  assert blocker["count"] == 1
  assert "register one with @graftax.ops_jax.register" in blocker["remedy"]
  assert "What blocks, and what works instead" in _run("inspect", model_with_unknown_op).output


def test_inspect_says_which_variables_a_trace_updates():
  report = json.loads(_run("inspect", _CLASSIFIER, "--json").output)
  ((_, evaluate), (_, train)) = report["functions"][0]["traces"]
  assert evaluate["updates"] == []
  names = ["norm/moving_mean", "norm/moving_variance", "num_steps"]
  assert train["updates"] == [f"classifier/{name}" for name in names]
  assert not train["needs_rng"]


def test_ops_says_what_is_known_of_an_op():
  (facts,) = json.loads(_run("ops", "Reshape", "--json").output)
  assert facts["function"] == "graftax.ops_jax.array.shape_ops.reshape"
  assert facts["must_be_known"] == ["shape"]
  assert (facts["gradient"], facts["jit"], facts["vmap"], facts["symbolic"]) == ("yes",) * 4
  assert facts["dtypes"].startswith("floats, ints, uints, complex")
  assert json.loads(_run("ops", "Switch", "--json").output)[0]["raised"]
  assert "experimental set of ops" in " ".join(_run("ops", "RiscAdd").output.split())
  assert "jax.lax.psum" in " ".join(_run("ops", "CollectiveGatherV2").output.split())
  assert "ScatterNdNonAliasingAdd" in _run("ops", "*scatternd*").output
  wrong = _run("ops", "Conv3")
  assert wrong.exit_code == 1
  assert "Did you mean Conv3D" in wrong.output


def test_doctor_lists_devices_and_versions():
  diagnosis = json.loads(_run("doctor", "--json").output)
  assert diagnosis["devices"][0].startswith("cpu:0")
  assert diagnosis["versions"]["jax"] == jax.__version__
  assert diagnosis["faster"] == list(diagnose().faster)


@pytest.mark.skipif(not [*distributions(name="graftax-convert")], reason="the extras are in the metadata of wheels")
def test_doctor_says_what_installs_libraries():
  diagnosis = json.loads(_run("doctor", "--json").output)
  assert {'pip install "graftax-convert[flax]"'} == {
    library["install"] for library in diagnosis["libraries"] if library["name"] == "flax"
  }


def test_inspect_writes_a_page(tmp_path):
  shown = _run("inspect", _MODEL, "--html", tmp_path / "new/report.html")
  assert shown.exit_code == 0
  assert shown.stdout == ""
  assert "digits/conv1/kernel" in (tmp_path / "new/report.html").read_text(encoding="utf-8")


def test_a_page_replaces_pages_alone(tmp_path):
  for name, content in {"old.html": b"<!DOCTYPE html><p>", "empty.html": b"", "weights.npz": b"PK\x03\x04"}.items():
    (tmp_path / name).write_bytes(content)
  assert _run("inspect", _MODEL, "--html", tmp_path / "old.html").exit_code == 0
  assert _run("inspect", _MODEL, "--html", tmp_path / "empty.html").exit_code == 0
  refused = _run("inspect", _MODEL, "--html", tmp_path / "weights.npz")
  assert refused.exit_code == 1 and "weights.npz: exists, and is not a page; choose another name" in refused.output
  assert (tmp_path / "weights.npz").read_bytes() == b"PK\x03\x04"


def test_inspect_prints_json_beside_a_page(tmp_path):
  shown = _run("inspect", _MODEL, "--html", tmp_path / "report.html", "--json")
  assert shown.exit_code == 0
  assert json.loads(shown.stdout)["format"] == "TF2"
  assert (tmp_path / "report.html").stat().st_size > 1000


def test_version_is_that_of_the_package():
  assert _run("--version").output == f"graftax {__version__}\n"


def test_hub_modules_are_named_by_handle(tmp_path, monkeypatch):
  handle = "https://tfhub.dev/publisher/model/1"
  monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path))
  shutil.copytree(_TF1_MODULE, tmp_path / hashlib.sha1(handle.encode()).hexdigest())
  assert "default: float32[?, 4]" in _run("inspect", handle).stdout
  with np.load(_TF1_MODULE.with_suffix(".npz")) as expected:
    np.save(tmp_path / "x.npy", expected["x"])
    ran = _run("run", handle, "--tag", "train", "-i", f"default={tmp_path / 'x.npy'}", "-o", tmp_path / "y.npy")
    assert ran.exit_code == 0
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected["train.default"], rtol=1e-5, atol=1e-5)


def test_run_takes_text_from_the_lines_of_files(tmp_path):
  (tmp_path / "some.txt").write_text("red\nno such word\n")
  (tmp_path / "more.txt").write_text("green")
  np.save(tmp_path / "words.npy", np.array(["red", "no such word", "green"]))
  command = ["run", _TEXT_MODEL, "--signature", "look_up"]
  files = [f"words={tmp_path / name}" for name in ("some.txt", "more.txt")]
  assert _run(*command, "-i", files[0], "-i", files[1], "-o", tmp_path / "y.npz").exit_code == 0
  assert _run(*command, "-i", f"words={tmp_path / 'words.npy'}", "-o", tmp_path / "z.npz").exit_code == 0
  with np.load(tmp_path / "y.npz") as outputs, np.load(tmp_path / "z.npz") as again:
    assert outputs["line"].tolist() == [0, -1, 1]
    assert {name: values.tolist() for name, values in outputs.items()} == {k: v.tolist() for k, v in again.items()}
  missing = _run(*command, "-i", f"words={tmp_path / 'none.txt'}")
  assert missing.exit_code == 1 and "cannot be read: No such file" in missing.output.replace("\n", " ")
  given = _run(*command, "-i", "words=The quick fox")
  assert given.exit_code == 1 and "lines of a .txt file" in given.output.replace("\n", " ")


def test_run_writes_tensorflows_numbers(tmp_path, images):
  ran = _run("run", _MODEL, "-i", f"images={images}", "-o", tmp_path / "y.npz")
  assert ran.exit_code == 0
  with np.load(tmp_path / "y.npz") as outputs:
    assert sorted(outputs) == ["logits", "probabilities"]
    np.testing.assert_allclose(outputs["logits"], load_digits().tensorflow_logits[:5], atol=1e-4)
  (tmp_path / "y.npz").write_bytes(b"mine")
  again = _run("run", _MODEL, "-i", f"images={images}", "-o", tmp_path / "y.npz")
  assert again.exit_code == 1 and "exists already; pass --force" in " ".join(again.output.split())
  assert (tmp_path / "y.npz").read_bytes() == b"mine"
  assert _run("run", _MODEL, "-i", f"images={images}", "-o", tmp_path / "y.npz", "--force").exit_code == 0
  assert (tmp_path / "y.npz").read_bytes() != b"mine"


def test_run_in_batches_gives_the_same(tmp_path, images):
  for name, options in {"whole": [], "parts": ["--batch-size", "2"]}.items():
    assert _run("run", _MODEL, "-i", f"images={images}", "-o", tmp_path / f"{name}.npz", *options).exit_code == 0
  with np.load(tmp_path / "whole.npz") as whole, np.load(tmp_path / "parts.npz") as parts:
    # Measured: 4e-6, from convolutions that sum in another order for another batch size.
    np.testing.assert_allclose(parts["logits"], whole["logits"], atol=1e-4)


def test_run_without_output_prints(images):
  ran = _run("run", _MODEL, "-i", f"images={images}")
  assert ran.exit_code == 0
  assert "logits float32[5, 10]" in ran.stdout


def test_run_converts_float64_with_a_remark(tmp_path):
  np.save(tmp_path / "x.npy", load_digits().test_images[:1].astype(np.float64))
  ran = _run("run", _MODEL, "-i", f"images={tmp_path / 'x.npy'}")
  assert ran.exit_code == 0
  assert "note: input 'images': float64 was converted to float32" in ran.stderr


@pytest.fixture
def exported(tmp_path):
  converted = _run("convert", _MODEL, "--out", tmp_path / "out", "--gradient")
  assert converted.exit_code == 0, converted.stderr
  return tmp_path / "out", converted


def test_convert_writes_what_jax_loads_alone(exported):
  folder, converted = exported
  assert sorted(os.listdir(folder)) == [
    "load.py", "manifest.json", "parameters.safetensors", "program.jax", "program.stablehlo.zip",
  ]  # fmt: skip
  assert (folder / "load.py").read_text() == converted.stdout
  program = export.deserialize((folder / "program.jax").read_bytes())
  params = load_file(folder / "parameters.safetensors")
  data = load_digits()
  for num_images in (1, 6):
    logits = program.call(params, {"images": data.test_images[:num_images]})["logits"]
    np.testing.assert_allclose(logits, data.tensorflow_logits[:num_images], atol=1e-4)


def test_an_export_with_gradient_can_be_differentiated(exported):
  folder, _ = exported
  program = export.deserialize((folder / "program.jax").read_bytes())
  params = load_file(folder / "parameters.safetensors")
  images = load_digits().test_images[:2]
  gradient = jax.grad(lambda params: program.call(params, {"images": images})["logits"].sum())(params)
  np.testing.assert_array_equal(gradient["digits/head/bias"], np.full(10, 2))


def test_the_loading_code_runs_without_graftax(exported):
  folder, _ = exported
  code = (
    "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__'); print('graftax' in str(sys.modules.keys()))"
  )
  ran = _process("-c", code, folder / "load.py")
  assert ran.returncode == 0, ran.stderr
  assert ran.stdout.splitlines() == ["logits float32 (2, 10)", "probabilities float32 (2, 10)", "False"]


def test_convert_takes_a_fixed_batch(tmp_path):
  assert _run("convert", _MODEL, "--out", tmp_path / "out", "--batch", "4", "--platforms", "cpu").exit_code == 0
  manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
  assert manifest["inputs"]["images"]["shape"] == ["4", "8", "8", "1"]
  assert manifest["platforms"] == ["cpu"]


def test_convert_keeps_what_is_there_unless_forced(tmp_path):
  (tmp_path / "out").mkdir()
  (tmp_path / "out" / "mine").write_text("precious")
  refused = _run("convert", _MODEL, "--out", tmp_path / "out")
  assert refused.exit_code == 1
  assert "--force" in refused.stderr
  # A folder that is none of ours is not replaced even so, nor is the model itself or what is around it.
  for folder in (tmp_path / "out", _MODEL, Path(_MODEL).parent):
    assert _run("convert", _MODEL, "--out", folder, "--force").exit_code == 1
  assert os.listdir(tmp_path / "out") == ["mine"]
  for _ in range(2):
    ours = _run("convert", _MODEL, "--out", tmp_path / "ours", "--force", "--platforms", "cpu")
    assert ours.exit_code == 0
  assert "program.jax" in os.listdir(tmp_path / "ours")


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    (["inspect", "{tmp}/nowhere"], "nowhere: no such folder"),
    (["inspect", "nowhere"], "'nowhere': no such file or folder, and not the handle of a hub module"),
    (["inspect", "{tmp}"], "saved_model.pb"),
    (["inspect", "{tmp}/damaged"], "damaged"),
    (["inspect", _MODEL, "--tag", "train"], "train"),
    (["inspect", _MODEL, "--html", "{tmp}"], "is a folder; expected the name of a file"),
    (["inspect", _MODEL, "--html", "/proc/x.html"], "--html /proc/x.html: cannot be written (No such file"),
    (["run", _MODEL], "missing ['images'], unknown []"),
    (["run", _MODEL, "-i", "picture={tmp}/images.npy"], "missing ['images'], unknown ['picture']"),
    (["run", _MODEL, "-i", "images={tmp}/nothing.npy"], "no such file"),
    (["run", _MODEL, "-s", "serving", "-i", "images={tmp}/images.npy"], "no signature 'serving'; there are: 'serve'"),
    (["run", _MODEL, "-i", "images={tmp}/images.npy", "-o", "{tmp}/y.txt"], "unknown suffix '.txt'"),
    (["convert", "{tmp}/nowhere", "-o", "{tmp}/out"], "no such folder"),
    (["convert", _MODEL, "-o", "{tmp}/out", "-s", "train"], "no signature 'train'"),
    (["convert", _MODEL, "-o", "{tmp}/out", "--shape", "images=1,2"], "does not fit the signature"),
    (["convert", _MODEL, "-o", "{tmp}/out", "--batch", "0"], "--batch '0': expected a number from 1"),
    (["convert", _MODEL, "-o", "{tmp}/out", "--constraint", "batch>>2"], "expected conditions such as 'width>=2'"),
    (["convert", _MODEL, "-o", "/proc/foo"], "error: /proc/foo: cannot be written"),
    (["run", _MODEL, "-i", "images={tmp}/images.npy", "-o", "/proc/y.npy"], "a .npy file holds one array"),
    (["run", _MODEL, "-i", "images={tmp}/images.npy", "-o", "/proc/y.npz"], "error: /proc/y.npz: cannot be written"),
  ],
)
def test_what_is_wrong_is_one_message_and_leaves_nothing_behind(tmp_path, images, arguments, message):
  (tmp_path / "damaged").mkdir()
  (tmp_path / "damaged" / "saved_model.pb").write_bytes((model_path() / "saved_model.pb").read_bytes()[:5000])
  before = sorted(os.listdir(tmp_path))
  ran = _run(*(argument.format(tmp=tmp_path) for argument in arguments))
  assert ran.exit_code == 1
  assert message in ran.stderr
  assert ran.stderr.startswith("error: ")
  assert "Traceback" not in ran.output
  assert sorted(os.listdir(tmp_path)) == before


def test_unsupported_ops_are_one_message(tmp_path, model_with_unknown_op, images):
  for arguments in (["run", "-i", f"images={images}"], ["convert", "--out", tmp_path / "out"]):
    ran = _run(arguments[0], model_with_unknown_op, *arguments[1:])
    assert ran.exit_code == 1
    assert "CompanySecret x1" in ran.stderr
  assert not (tmp_path / "out").exists()


@pytest.fixture
def model_with_own_lowering(write_model):
  """A model of one op, Elu, with a lowering of the test's own, whose errors graftax leaves as they are."""
  original = lowering("Elu")

  def elu(features):
    raise TypeError("the company's lowering of Elu is not finished")

  register("Elu", ignores=("T",), override=True)(elu)
  yield write_model([("x", "Placeholder", []), ("y", "Elu", ["x"])], {"x": "x:0"}, {"y": "y:0"})
  register("Elu", ignores=original.ignores, override=True)(original.function)


def test_what_nobody_foresaw_is_one_message_too(tmp_path, model_with_own_lowering, monkeypatch):
  np.savez(tmp_path / "x.npz", x=np.ones(2, np.float32))
  arguments = ["run", model_with_own_lowering, "-i", tmp_path / "x.npz"]
  monkeypatch.delenv("GRAFTAX_TRACEBACK", raising=False)
  ran = _run(*arguments)
  assert ran.exit_code == 1
  assert ran.stderr.startswith("error: TypeError: ") and "'y'" in ran.stderr
  assert "GRAFTAX_TRACEBACK=1" in ran.stderr and "Traceback" not in ran.output
  monkeypatch.setenv("GRAFTAX_TRACEBACK", "1")
  assert isinstance(_run(*arguments).exception, TypeError)


def test_the_command_works_as_a_process(tmp_path, images):
  output = tmp_path / "y.npz"
  ran = _process("-m", "graftax.tools.cli", "run", _MODEL, "-i", f"images={images}", "-o", output)
  assert ran.returncode == 0, ran.stderr
  assert ran.stdout == ""
  assert output.exists()
  failed = _process("-m", "graftax.tools.cli", "inspect", tmp_path)
  assert failed.returncode == 1
  assert failed.stdout == ""
  assert failed.stderr.startswith("error: ")
  assert len(failed.stderr.splitlines()) == 1


def test_paths_with_brackets_are_shown_as_they_are(tmp_path):
  folder = Path(tmp_path / "[bold]model")
  folder.symlink_to(model_path())
  assert "[bold]model" in _run("inspect", folder).stdout
  assert "[red]nothing" in _run("inspect", tmp_path / "[red]nothing").stderr


def test_files_elsewhere_need_an_option(tmp_path):
  model = tmp_path / "model"
  shutil.copytree(_MODEL, model)
  (tmp_path / "blobs").mkdir()
  shutil.move(model / "saved_model.pb", tmp_path / "blobs/0a1b")
  (model / "saved_model.pb").symlink_to("../blobs/0a1b")
  (tmp_path / "m.tar.gz").write_bytes(b"")
  refused = _run("inspect", model)
  assert refused.exit_code == 1 and "allow_files_in=" in refused.output
  assert _run("inspect", model, "--allow-files-in", tmp_path / "blobs").exit_code == 0
  wrong = _run("inspect", tmp_path / "m.tar.gz", "--sha256", "0" * 64)
  assert wrong.exit_code == 1 and "its SHA-256 digest is" in wrong.output
  plain = _run("inspect", "http://127.0.0.1:9/publisher/model/1")
  assert plain.exit_code == 1 and "not an https address" in plain.output
