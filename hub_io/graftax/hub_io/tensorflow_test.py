"""The caches and modules as tensorflow_hub itself reads and writes them."""

import warnings
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from graftax.hub_io import load

with warnings.catch_warnings():
  # https://github.com/tensorflow/hub/issues/934: it imports pkg_resources.
  warnings.filterwarnings("ignore", "pkg_resources is deprecated", UserWarning)
  warnings.filterwarnings("ignore", "Deprecated call to `pkg_resources", DeprecationWarning)
  import tensorflow_hub as hub

_DATA = Path(__file__).parent / "testdata/2026_11_22"
_X = np.arange(8, dtype=np.float32).reshape(2, 4)


def test_tensorflow_hub_finds_what_we_downloaded(tfhub_server):
  handle = f"{tfhub_server.url}/publisher/model/1"
  assert hub.resolve(load(handle, allow_http=True).handle) == load(handle, allow_http=True).path
  assert len(tfhub_server.paths) == 1


def test_we_find_what_tensorflow_hub_downloaded(tfhub_server):
  handle = f"{tfhub_server.url}/publisher/model/1"
  path = hub.resolve(handle)
  assert load(handle, offline=True).path == path


def test_a_module_of_tf2_computes_what_tensorflow_hub_does():
  theirs = hub.load(str(_DATA / "tf2_module"))
  fn, params = load(_DATA / "tf2_module").convert("__call__", _X)
  np.testing.assert_allclose(fn(params, _X)[0], theirs(_X), rtol=1e-6)


@pytest.mark.parametrize("tags", [None, {"train"}, {"train", "batch_norm_fused"}])
def test_a_module_of_tf1_computes_what_tensorflow_hub_does(tags):
  theirs = hub.load(str(_DATA / "tf1_module"), tags=tags)
  module = load(_DATA / "tf1_module", tags)
  fn, params = module.convert()
  expected = theirs.signatures["default"](tf.constant(_X))
  np.testing.assert_allclose(fn(params, default=_X)[0]["default"], expected["default"], rtol=1e-5, atol=1e-5)
  # TensorFlow 2 leaves out reference variables, which are the pieces of the kernel.
  pieces = {"dense/kernel/part_0", "dense/kernel/part_1"}
  assert {variable.name.removesuffix(":0") for variable in theirs.variables} == set(module.variables) - pieces
