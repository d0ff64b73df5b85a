"""The examples in docs/examples/fine_tuning run: each library trains a converted model, saves it and restores it.

They run in a process of their own, because Keras chooses its backend when it is first imported. TensorFlow is not
needed.
"""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from cleanroom import ROOT

_EXAMPLES = sorted((ROOT / "docs" / "examples" / "fine_tuning").glob("*.py"))
_MODEL = ROOT / "savedmodel_io/graftax/savedmodel_io/testdata/2026_11_23/classifier"
_RUN = """
import json, os, runpy, sys
sys.modules["tensorflow"] = None
import jax
import numpy as np
from graftax.savedmodel_io import load
model, folder, *paths = sys.argv[1:]
results = {}
for path in paths:
  name = os.path.basename(path)
  os.mkdir(f"{folder}/{name}")
  losses, statistics, outputs, restored = runpy.run_path(path)["main"](model, f"{folder}/{name}")
  fn, params = load(f"{folder}/{name}/tuned").convert("__call__", training=False)
  x = np.asarray(jax.random.normal(jax.random.key(0), (256, 4)) + 1)
  tuned = np.asarray(fn(params, x)[0])
  np.testing.assert_allclose(tuned, outputs, rtol=1e-4, atol=1e-4, err_msg=name)
  statistics = {str(key).replace("/", "."): np.asarray(value).tolist() for key, value in statistics.items()}
  results[name] = losses, statistics, np.asarray(outputs).tolist(), np.asarray(restored).tolist()
print(json.dumps(results))
"""


@pytest.mark.slow  # 10 s; finds what the tests of the wrappers do not: whether training, saving and restoring work
def test_losses_fall_statistics_update_and_what_was_saved_is_restored(tmp_path):
  environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
  command = [sys.executable, "-c", _RUN, _MODEL, tmp_path, *_EXAMPLES]
  ran = subprocess.run(command, env=environment, capture_output=True, text=True)
  assert ran.returncode == 0, ran.stderr
  results = json.loads(ran.stdout.splitlines()[-1])
  assert len(results) == 4
  for name, (losses, statistics, outputs, restored) in results.items():
    assert losses[-1] < 0.25 * losses[0], name
    assert statistics["classifier.num_steps"] == 100, name
    assert np.abs(statistics["classifier.norm.moving_mean"]).max() > 0.1, name  # they begin as zeros
    np.testing.assert_array_equal(restored, outputs, err_msg=name)
  np.testing.assert_allclose(results["flax_nnx.py"][0], results["equinox_model.py"][0], rtol=1e-4)


@pytest.mark.slow  # 10 s
def test_examples_run_without_arguments():
  environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
  ran = subprocess.run([sys.executable, _EXAMPLES[0]], env=environment, capture_output=True, text=True)
  assert ran.returncode == 0, ran.stderr
  folder = ran.stdout.splitlines()[-1].removeprefix("SavedModel: ")
  assert os.path.isfile(f"{folder}/saved_model.pb")


@pytest.mark.parametrize("path", _EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_short(path):
  assert len(path.read_text(encoding="utf-8").splitlines()) < 65
