import importlib.util
import subprocess
import sys

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

from graftax.graphdef_ir import DType, PartialShape, TensorSpec
from graftax.savedmodel_io import Signature, read_safetensors
from graftax.tools.cli import app
from graftax.tools.commands.source_folder import write_source
from graftax.tools.errors import ArrayFileError
from graftax.tools.examples.digits import model_path
from graftax.tools.inputs.host_examples import example_inputs, stored_array

# Fails if anything of graftax or of TensorFlow is imported.
_ALONE = (
  "import sys, runpy; sys.modules.update(dict.fromkeys(('graftax', 'tensorflow'))); "
  "sys.path.insert(0, sys.argv[1]); runpy.run_path(sys.argv[1] + '/check.py', run_name='__main__')"
)
_RANDOM = [
  ("x", "Placeholder", []),
  ("shape", "Shape", ["x"]),
  ("noise", "RandomStandardNormal", ["shape"]),
  ("y", "AddV2", ["x", "noise"]),
]


def _check(folder):
  return subprocess.run([sys.executable, "-c", _ALONE, str(folder)], capture_output=True, text=True, check=False)


def test_the_folder_runs_with_jax_alone_and_equals_the_model(tmp_path):
  result = CliRunner().invoke(app, ["source", str(model_path()), "-o", str(tmp_path / "out")])
  assert result.exit_code == 0, result.output
  checked = _check(tmp_path / "out")
  assert checked.returncode == 0, checked.stderr
  assert checked.stdout.startswith("equal: 2 results")
  assert "graftax" not in (tmp_path / "out" / "model.py").read_text().split('"""')[2]
  # An argument with a default that somebody adds gets none.
  assert "random" not in (tmp_path / "out" / "check.py").read_text()
  assert "`: float32[2, 10]\n" in (tmp_path / "out" / "README.md").read_text()


def test_the_parameters_say_which_are_trained(tmp_path):
  options = {"signature": None, "tags": None, "batch": "2", "shapes": ()}
  folder = write_source(model_path(), tmp_path / "out", force=False, **options).folder
  spec = importlib.util.spec_from_file_location("written_params", folder / "params.py")
  written = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(written)
  path = folder / "params.safetensors"
  found = jax.tree.leaves_with_path(written.trained(path))
  assert jax.tree.structure(written.trained(path)) == jax.tree.structure(written.load(path))
  names = {step[-1].key: value for step, value in found}
  assert names["gamma"] is True and names["moving_mean"] is False


def test_the_check_compares_with_the_largest_element(write_model, tmp_path):
  model = write_model([("x", "Placeholder", []), ("y", "Tanh", ["x"])], {"x": "x:0"}, {"y": "y:0"})
  write_source(model, tmp_path / "out", signature=None, tags=None, batch="2", shapes=(), force=False)
  text = (tmp_path / "out" / "model.py").read_text()
  small = text.replace("jnp.tanh(x)", "jnp.tanh(x) * 1e-5")
  assert small != text
  (tmp_path / "out" / "model.py").write_text(small)
  stored = dict(np.load(tmp_path / "out" / "example.npz"))
  (key,) = [key for key in stored if key.startswith("output/")]
  np.savez(tmp_path / "out" / "example.npz", **(stored | {key: stored[key] * np.float32(1e-5)}))
  assert _check(tmp_path / "out").returncode == 0
  (tmp_path / "out" / "model.py").write_text(text.replace("jnp.tanh(x)", "jnp.tanh(x) * 1.1e-5"))
  assert "Not equal to tolerance" in _check(tmp_path / "out").stderr


def test_the_folder_of_a_module_runs_with_flax_alone_and_equals_the_model(tmp_path):
  pytest.importorskip("flax")
  out = tmp_path / "out"
  result = CliRunner().invoke(app, ["source", str(model_path()), "-o", str(out), "--style", "nnx"])
  assert result.exit_code == 0, result.output
  checked = _check(out)
  assert checked.returncode == 0, checked.stderr
  assert checked.stdout.startswith("equal: 2 results")
  assert "class Model(nnx.Module):" in (out / "model.py").read_text()
  assert 'model.Model(params.load("params.safetensors"))' in (out / "README.md").read_text()
  wrong = CliRunner().invoke(app, ["source", str(model_path()), "-o", str(tmp_path / "other"), "--style", "flax"])
  assert wrong.exit_code != 0 and "'nnx'" in wrong.output


def test_the_check_notices_other_parameters(tmp_path):
  written = write_source(
    model_path(), tmp_path / "out", signature=None, tags=None, batch="symbolic", shapes=(), force=False
  )
  path = written.folder / "params.safetensors"
  stored = path.read_bytes()
  path.write_bytes(stored[:-64] + np.full(16, 3, np.float32).tobytes())
  checked = _check(written.folder)
  assert checked.returncode != 0
  assert "Not equal to tolerance" in checked.stderr
  assert "'" not in (written.folder / "README.md").read_text().split("`: ", 1)[1].splitlines()[0]
  assert len(read_safetensors(path)) == (written.folder / "README.md").read_text().count("\n| `")


def test_a_model_that_draws_random_numbers_takes_a_key(write_model, tmp_path):
  model = write_model(_RANDOM, {"x": "x:0"}, {"y": "y:0"})
  write_source(model, tmp_path / "out", signature=None, tags=None, batch="symbolic", shapes=(), force=False)
  assert "def model(x, rng):" in (tmp_path / "out" / "model.py").read_text()
  assert "arguments.append(jax.random.key(0))" in (tmp_path / "out" / "check.py").read_text()
  assert _check(tmp_path / "out").returncode == 0


def test_inputs_may_have_the_names_of_options(write_model, tmp_path):
  nodes = [("a", "Placeholder", []), ("b", "Placeholder", []), ("y", "Sub", ["a", "b"])]
  model = write_model(nodes, {"style": "a:0", "host": "b:0"}, {"y": "y:0"})
  write_source(model, tmp_path / "out", signature=None, tags=None, batch="2", shapes=(), force=False)
  text = (tmp_path / "out" / "model.py").read_text()
  assert "def model(host, style):" in text and "style - host" in text
  assert _check(tmp_path / "out").returncode == 0


def test_names_from_a_file_stay_in_their_lines_and_cells_of_the_readme(write_model, tmp_path):
  name = "x)`\nimport os | `"
  model = write_model([("x", "Placeholder", []), ("y", "Tanh", ["x"])], {name: "x:0"}, {"y": "y:0"})
  write_source(model, tmp_path / "out", signature=None, tags=None, batch="2", shapes=(), force=False)
  lines = (tmp_path / "out" / "README.md").read_text().splitlines()
  assert "results = jax.jit(model.model)(x_import_os)" in lines
  assert any(line.startswith("- `x)<U+0060><U+000A>import os <U+007C> <U+0060>`: float32") for line in lines)
  assert _check(tmp_path / "out").returncode == 0


@pytest.mark.parametrize("style", ["jax", "nnx"])
def test_the_check_reads_bfloat16(style, write_model, tmp_path):
  if style == "nnx":
    pytest.importorskip("flax")
  model = write_model([("x", "Placeholder", []), ("y", "Tanh", ["x"])], {"x": "x:0"}, {"y": "y:0"}, DType.BFLOAT16)
  write_source(
    model, tmp_path / "out", signature=None, tags=None, batch="symbolic", shapes=(), style=style, force=False
  )
  checked = _check(tmp_path / "out")
  assert checked.returncode == 0, checked.stderr
  assert checked.stdout.startswith("equal: 1 result,")


def test_source_is_replaced_only_if_asked(tmp_path):
  options = {"signature": None, "tags": None, "batch": "2", "shapes": ()}
  write_source(model_path(), tmp_path / "out", force=False, **options)
  with pytest.raises(FileExistsError):
    write_source(model_path(), tmp_path / "out", force=False, **options)
  write_source(model_path(), tmp_path / "out", force=True, **options)


@pytest.mark.parametrize("text", ["class Model: ...\n", '"""Written by graftax."""\n'])
def test_a_folder_of_another_program_is_never_replaced(text, tmp_path):
  (tmp_path / "model.py").write_text(text)
  with pytest.raises(FileExistsError, match="is not one that this command wrote"):
    write_source(model_path(), tmp_path, signature=None, tags=None, batch="2", shapes=(), force=True)
  assert (tmp_path / "model.py").read_text() == text


def test_sizes_and_names_of_a_model_make_no_large_or_lost_examples():
  spec = TensorSpec(PartialShape.of(None, 10**12), DType.STRING, "text")
  signature = Signature("serving_default", "", {"text": spec}, {}, {}, {}, {}, None)
  with pytest.raises(ArrayFileError, match=r"input 'text' of the shape \[3, 1000000000000\]: is too large"):
    example_inputs(signature, [])
  # The name is looked at before the file, which need not be one of arrays.
  with pytest.raises(ArrayFileError, match=r"no inputs \['txt'\]; the signature has \['text'\]"):
    example_inputs(signature, ["txt=lines.txt"])
  for name in ("a\0b", "a" * 70_000):
    with pytest.raises(ArrayFileError, match="zero byte or of more than 4096 bytes"):
      stored_array("input", name, np.ones(1))
