"""`graftax source --host graftax` of a model that TensorFlow saved: strings to numbers to strings."""

import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from typer.testing import CliRunner

from graftax.tools.cli import app
from graftax.tools.commands.source_folder import write_source

_TEXTS = ["the quick brown fox", "hello, world!", "a quick fox says hello to the world again and again"]
_OTHERS = ["quick", "the world says hello", "nothing known", "hello hello"]

# Runs a file of the folder where what is named first cannot be imported.
_RUN = """
import runpy, sys
sys.modules.update(dict.fromkeys(sys.argv[1].split(",")))
sys.path.insert(0, sys.argv[2])
runpy.run_path(sys.argv[2] + "/" + sys.argv[3], run_name="__main__")
"""
# Runs the model on texts, from the folder.
_TEXT_MAIN = """
import json, pathlib
import model, params
from graftax.savedmodel_io import read_host_parts

here = pathlib.Path(__file__).parent
results = model.run(params.load(here / "params.safetensors"), read_host_parts(here / "host"), text=TEXTS)
print(json.dumps({"label": [x.decode() for x in results["label"].tolist()], "scores": results["scores"].tolist()}))
"""
# Runs the function of numbers.
_NUMBERS_MAIN = """
import pathlib
import numpy as np
import model, params

ids = np.ones((5, 6), np.int32)
print(model.model(params.load(pathlib.Path(__file__).parent / "params.safetensors"), ids)["scores"].shape)
"""


class _Classifier(tf.Module):
  def __init__(self):
    super().__init__()
    self.vectorize = tf.keras.layers.TextVectorization(output_sequence_length=6, name="vectorize")
    self.vectorize.adapt(_TEXTS)
    self.embed = tf.keras.layers.Embedding(30, 8)
    self.hidden = tf.keras.layers.Dense(16, activation="gelu")
    self.logits = tf.keras.layers.Dense(3, kernel_initializer=tf.keras.initializers.RandomNormal(stddev=2, seed=0))
    names = tf.lookup.KeyValueTensorInitializer(tf.constant([0, 1, 2], tf.int64), tf.constant(["bad", "so so", "good"]))
    self.names = tf.lookup.StaticHashTable(names, "?")

  @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
  def __call__(self, text):
    x = tf.reduce_mean(self.embed(self.vectorize(text)), 1)
    x = self.logits(self.hidden(x))
    return {
      "scores": tf.nn.softmax(x),
      "label": self.names.lookup(tf.argmax(x, -1)),
      "echo": tf.strings.join(["<", text, ">"]),
    }


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
  """Returns the folder of a model, and the model."""
  tf.keras.utils.set_random_seed(0)
  model = _Classifier()
  model(tf.constant(_TEXTS))
  folder = tmp_path_factory.mktemp("models") / "text"
  tf.saved_model.save(model, str(folder), signatures={"serving_default": model.__call__})
  return folder, model


def _graftax(*arguments):
  command = [sys.executable, "-m", "graftax.tools.cli", *map(str, arguments)]
  return subprocess.run(command, capture_output=True, text=True, check=False)


def _run(blocked, folder, file):
  command = [sys.executable, "-c", _RUN, blocked, str(folder), file]
  done = subprocess.run(command, capture_output=True, text=True, check=False)
  assert done.returncode == 0, done.stderr
  return done.stdout


def test_a_text_model_is_written_with_calls_of_graftax(saved, tmp_path):
  path, model = saved
  refused = _graftax("source", path, "-o", tmp_path / "out")
  shown = " ".join(refused.stderr.split())
  assert refused.returncode == 1 and "head: StringLower x1" in shown and "tail: LookupTableFindV2 x1" in shown
  assert "--host graftax" in shown and not (tmp_path / "out").exists()

  texts = tmp_path / "texts.txt"
  texts.write_text("\n".join(_TEXTS))
  written = _graftax("source", path, "-o", tmp_path / "out", "--host", "graftax", "-i", f"text={texts}")
  assert written.returncode == 0, written.stderr
  assert _run("tensorflow", tmp_path / "out", "check.py").startswith("equal: 3 results")
  (tmp_path / "out/texts.py").write_text(f"TEXTS = {_OTHERS!r}\n{_TEXT_MAIN}")
  found = json.loads(_run("tensorflow", tmp_path / "out", "texts.py"))
  wanted = {name: value.numpy() for name, value in model(tf.constant(_OTHERS)).items()}
  assert found["label"] == [label.decode() for label in wanted["label"]] and len(set(found["label"])) > 1
  np.testing.assert_allclose(found["scores"], wanted["scores"], rtol=1e-5)
  # The function of numbers needs nothing of graftax.
  (tmp_path / "out/body_alone.py").write_text(_NUMBERS_MAIN)
  assert _run("tensorflow,graftax", tmp_path / "out", "body_alone.py") == "(5, 3)\n"
  readme = (tmp_path / "out/README.md").read_text()
  assert "- head: " in readme and "- `vectorize`: int32[batch, 6]" in readme

  # TensorFlow runs what is written for the host, too.
  host = tf.saved_model.load(str(tmp_path / "out/host"))
  ids, passed = host.head(text=tf.constant(_OTHERS))
  np.testing.assert_array_equal(ids, model.vectorize(tf.constant(_OTHERS)))
  np.testing.assert_array_equal(passed, wanted["echo"])


def test_sizes_are_those_of_example_inputs(saved, tmp_path):
  path, _ = saved
  arguments = ["source", str(path), "-o", str(tmp_path / "out"), "--host", "graftax"]
  sized = CliRunner().invoke(app, [*arguments, "--batch", "2"])
  assert sized.exit_code == 1 and "sizes of a model with parts for the host" in " ".join(sized.output.split())
  unknown = CliRunner().invoke(app, [*arguments, "-i", f"words={path / 'fingerprint.pb'}"])
  assert unknown.exit_code == 1 and "Traceback" not in unknown.output


def test_inputs_are_made_up_and_a_module_is_written(saved, tmp_path):
  pytest.importorskip("flax")
  path, _ = saved
  options = {"signature": None, "tags": None, "batch": "symbolic", "shapes": (), "force": False}
  write_source(path, tmp_path / "out", style="nnx", host="graftax", **options)
  assert "Model(nnx.Module)" in (tmp_path / "out/model.py").read_text()
  assert _run("tensorflow", tmp_path / "out", "check.py").startswith("equal: 3 results")
