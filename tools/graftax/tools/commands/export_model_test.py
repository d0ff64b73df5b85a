import json
import runpy
import sys

import jax
import numpy as np
import pytest
from jax import export

import graftax.tools.commands.export_model as export_module
import graftax.tools.commands.run_model as run_module
from graftax.graphdef_ir import DType
from graftax.ops_jax import lowering, register
from graftax.savedmodel_io import load, save
from graftax.tools.commands.export_model import PROGRAM_FILE, export_model
from graftax.tools.commands.run_model import run_model
from graftax.tools.errors import ExportError
from graftax.tools.examples.digits import model_path

_RANDOM = [
  ("x", "Placeholder", []),
  ("shape", "Shape", ["x"]),
  ("noise", "RandomStandardNormal", ["shape"]),
  ("y", "AddV2", ["x", "noise"]),
]


def _export(path, out, **options):
  defaults = {
    "signature": "serving_default", "tags": None, "batch": "symbolic", "shapes": (), "platforms": ("cpu",),
    "gradient": False, "force": False,
  }  # fmt: skip
  return export_model(path, out, **{**defaults, **options})


def test_a_signature_that_draws_random_numbers_takes_a_key(write_model, tmp_path, monkeypatch):
  model = write_model(_RANDOM, {"x": "x:0"}, {"y": "y:0"})
  exported = _export(model, tmp_path / "out")
  assert json.loads((tmp_path / "out" / "manifest.json").read_text())["rng"] is True
  program = export.deserialize((tmp_path / "out" / PROGRAM_FILE).read_bytes())
  key = jax.random.key(3)
  fn, params = load(model).convert()
  x = np.zeros(5, np.float32)
  drawn = program.call({}, {"x": x}, jax.random.key_data(key))["y"]
  np.testing.assert_allclose(drawn, fn(params, x=x, rng=key)[0]["y"], rtol=1e-6)
  assert "jnp.zeros(2, jnp.uint32)" in exported.code
  assert runpy.run_path(str(tmp_path / "out" / "load.py"), run_name="__main__")["outputs"]["y"].shape == (2,)

  def too_old(data):
    raise ValueError("older than six months")

  monkeypatch.setattr(export, "deserialize", too_old)
  later = runpy.run_path(str(tmp_path / "out" / "load.py"))
  np.testing.assert_allclose(later["predict"]({}, {"x": x}, jax.random.key_data(key))["y"], drawn, rtol=1e-6)
  monkeypatch.setitem(sys.modules, "graftax.xla_call_module", None)
  with pytest.raises(ValueError, match=r"older than six months Install graftax-xla-call-module"):
    runpy.run_path(str(tmp_path / "out" / "load.py"))


def test_a_run_with_random_numbers_depends_on_the_seed(write_model, tmp_path):
  model = write_model(_RANDOM, {"x": "x:0"}, {"y": "y:0"})
  np.save(tmp_path / "x.npy", np.zeros(4, np.float32))
  drawn = []
  for seed in (0, 0, 1):
    output = tmp_path / f"y{len(drawn)}.npy"
    run_model(
      model, [f"x={tmp_path / 'x.npy'}"], output, signature="serving_default", tags=None, batch_size=None, seed=seed
    )
    drawn.append(np.load(output).tolist())
  assert drawn[0] == drawn[1]
  assert drawn[0] != drawn[2]


def test_sizes_that_jax_cannot_decide_are_an_error_that_tells_the_way_out(write_model, tmp_path):
  model = write_model(
    [("x", "Placeholder", []), ("z", "Placeholder", []), ("y", "AddV2", ["x", "z"])],
    {"x": "x:0", "z": "z:0"},
    {"y": "y:0"},
  )
  with pytest.raises(ExportError, match=r"(?s)x\[m\], z\[n\].*'y'.*sizes m, n, with --batch 8"):
    _export(model, tmp_path / "out", shapes=["x=m", "z=n"])
  assert not (tmp_path / "out").exists()
  _export(model, tmp_path / "out", shapes=["x=m", "z=m"])


def _with_lowering(write_model, function):
  """A model of one op, Elu, which is lowered by `function` while the test runs."""
  register("Elu", ignores=("T",), override=True)(function)
  return write_model([("x", "Placeholder", []), ("y", "Elu", ["x"])], {"x": "x:0"}, {"y": "y:0"})


@pytest.fixture
def elu():
  """Puts the lowering of Elu back after the test."""
  original = lowering("Elu")
  yield
  register("Elu", ignores=original.ignores, override=True)(original.function)


@pytest.mark.usefixtures("elu")
def test_undecided_sizes_can_be_constrained(write_model, tmp_path):
  model = _with_lowering(write_model, lambda x: x if x.shape[0] >= 2 else -x)
  with pytest.raises(ExportError, match=r"open sizes n, with .* --constraint 'n>=2'") as e:
    _export(model, tmp_path / "out", shapes=["x=n"], platforms=("cpu", "tpu"))
  assert "--platforms" not in str(e.value)
  _export(model, tmp_path / "out", shapes=["x=n"], constraints=["n>=2"])


@pytest.mark.usefixtures("elu")
def test_numbers_are_not_advised_where_they_do_not_help(write_model, tmp_path):
  def never(x):
    raise TypeError("never")

  model = _with_lowering(write_model, never)
  for options in ({"shapes": ["x=n"]}, {"batch": "3", "platforms": ("cpu", "tpu")}):
    with pytest.raises(ExportError, match="TypeError: never") as e:
      _export(model, tmp_path / "out", **options)
    assert "--" not in str(e.value) and "'y'" in str(e.value)


def test_64_bit_inputs_and_outputs_that_become_narrow_are_noted(write_model, tmp_path, capsys):
  model = write_model([("x", "Placeholder", []), ("y", "Neg", ["x"])], {"x": "x:0"}, {"y": "y:0"}, DType.INT64)
  _export(model, tmp_path / "out")
  noted = capsys.readouterr().err
  assert "note: input 'x' becomes int32; JAX_ENABLE_X64=1 keeps int64" in noted
  assert "note: output 'y' becomes int32; JAX_ENABLE_X64=1 keeps int64" in noted


def test_a_program_runs_on_every_platform_it_is_exported_for(tmp_path):
  _export(model_path(), tmp_path / "out", platforms=("cpu", "cuda", "rocm", "tpu"))
  program = export.deserialize((tmp_path / "out" / PROGRAM_FILE).read_bytes())
  assert program.platforms == ("cpu", "cuda", "rocm", "tpu")


def test_parameters_are_described(tmp_path):
  _export(model_path(), tmp_path / "out")
  manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
  assert len(manifest["parameters"]) == 14
  assert manifest["parameters"]["digits/norm1/moving_mean"] == {"trainable": False}
  assert manifest["outputs"]["logits"] == {"dtype": "float32", "shape": ["batch", "10"], "example_shape": [2, 10]}


def test_a_model_of_one_platform_says_to_name_it(tmp_path):
  save(
    tmp_path / "m",
    (lambda params, x: x * params["w"], jax.ShapeDtypeStruct(jax.export.symbolic_shape("batch"), np.float32)),
    {"w": np.ones(())},
  )
  with pytest.raises(ExportError, match="lowered for cpu") as e:
    _export(tmp_path / "m", tmp_path / "out", platforms=("cpu", "tpu"))
  assert str(e.value).endswith("Name the platforms that the model was lowered for with --platforms.")
  _export(tmp_path / "m", tmp_path / "out")
  _export(tmp_path / "m", tmp_path / "by_default", platforms=None)  # for those that there is code for
  assert json.loads((tmp_path / "by_default/manifest.json").read_text())["platforms"] == ["cpu"]


# Known to all versions of JAX that are supported.
_OPTIONS = {"xla_cpu_prefer_vector_width": "256"}


def test_the_written_code_compiles_with_options_that_this_jax_knows(tmp_path, monkeypatch):
  options = _OPTIONS
  monkeypatch.setattr(export_module, "compiler_options", lambda platform, program: options)
  exported = _export(model_path(), tmp_path / "out")
  assert json.loads((tmp_path / "out" / "manifest.json").read_text())["compiler_options"] == {"cpu": options}
  loaded = runpy.run_path(str(tmp_path / "out" / "load.py"), run_name="__main__")
  assert loaded["options"] == options
  assert loaded["known_options"]({"xla_no_such_option": "1"}) is None
  plain = _export(model_path(), tmp_path / "plain", with_compiler_options=False)
  assert "compiler_options" in exported.code and "compiler_options" not in plain.code
  outputs = runpy.run_path(str(tmp_path / "plain" / "load.py"), run_name="__main__")["outputs"]
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-5, 1e-6), loaded["outputs"], outputs)


def test_a_run_compiles_each_shape_once_with_the_options(tmp_path, monkeypatch):
  (name,) = load(model_path()).signatures["serving_default"].inputs
  np.save(tmp_path / "x.npy", np.random.default_rng(0).random((5, 8, 8, 1), np.float32))
  programs = []
  monkeypatch.setattr(run_module, "compiler_options", lambda program: programs.append(program) or _OPTIONS)

  def run(output, **options):
    inputs = [f"{name}={tmp_path / 'x.npy'}"]
    run_model(model_path(), inputs, tmp_path / output, signature=None, tags=None, batch_size=2, seed=0, **options)
    return np.load(tmp_path / output)

  found = run("y.npz")
  assert len(programs) == 2  # of 2, 2 and 1 images
  plain = run("z.npz", with_compiler_options=False)
  assert len(programs) == 2
  for key in plain:
    np.testing.assert_allclose(found[key], plain[key], 1e-5, 1e-6)
