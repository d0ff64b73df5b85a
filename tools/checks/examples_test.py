"""The examples in docs/examples run, and our reader computes what they compute. TensorFlow is not needed."""

import runpy

import jax
import numpy as np
import pytest
from cleanroom import ROOT

from graftax.savedmodel_io import load

_EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.py"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of the libraries
@pytest.mark.parametrize("path", _EXAMPLES, ids=lambda path: path.stem)
def test_the_saved_model_computes_what_the_example_computes(path, tmp_path):
  inputs, expected = runpy.run_path(str(path))["main"](str(tmp_path / "model"))
  fn, params = load(tmp_path / "model").convert("serving_default")
  (found,) = jax.tree.leaves(fn(params, inputs_0=inputs)[0])
  np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("path", _EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_short(path):
  assert len(path.read_text(encoding="utf-8").splitlines()) < 60
