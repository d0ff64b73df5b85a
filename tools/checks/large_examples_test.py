"""The examples for large data sets and large models run, and compute what one process computes.

Apache Beam and Ray are in no lock: `make large-data` installs them and runs the tests that are skipped without them.
"""

import importlib.util
import runpy

import jax
import numpy as np
import pytest
from cleanroom import ROOT

from graftax.savedmodel_io import load
from graftax.tools.examples.digits import load_digits, model_path

_EXAMPLES = ROOT / "docs/examples"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Beam and Ray
@pytest.mark.parametrize(("library", "program"), [("apache_beam", "beam_inference"), ("ray", "ray_inference")])
def test_an_engine_predicts_for_each_example_what_one_call_predicts(library, program, tmp_path):
  if importlib.util.find_spec(library) is None:
    pytest.skip(f"needs {library}")
  digits, labels = runpy.run_path(str(_EXAMPLES / f"large_data/{program}.py"))["main"](str(tmp_path))
  data = load_digits()
  fn, params = load(model_path()).convert("serving_default")
  expected = np.asarray(jax.jit(fn)(params, images=data.test_images)[0]["logits"]).argmax(-1)
  # Ray may return rows in another order.
  assert sorted(zip(labels, digits, strict=True)) == sorted(zip(data.test_labels, expected, strict=True))


@pytest.mark.slow  # two processes that wait for each other
def test_two_processes_train_as_one_does(tmp_path):
  example = runpy.run_path(str(_EXAMPLES / "large_models/sharded_over_processes.py"))
  losses = example["main"](str(tmp_path))
  params = example["write_model"](str(tmp_path / "again"))
  before, tuned = example["step"](example["apply"], params, example["rows"]())
  after, _ = example["step"](example["apply"], tuned, example["rows"]())
  assert after < before
  assert len(losses) == 2
  for found in losses:
    np.testing.assert_allclose(found, [before, after], rtol=1e-5)
