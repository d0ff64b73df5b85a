import importlib.util
import re
import unittest
from pathlib import Path

import jax
import numpy as np
from scoring import score_gradients

_LOCKED_JAX = "0.11.0"


class ScoringTest(unittest.TestCase):
  def test_gradients_are_those_of_the_sum_of_squares(self):
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(score_gradients(rows), 2 * rows)

  def test_jax_is_the_one_of_this_workspace(self):
    self.assertEqual(jax.__version__, _LOCKED_JAX)

  def test_tensorflow_and_other_packages_of_graftax_are_not_there(self):
    for name in ("tensorflow", "google.protobuf", "graftax.graphdef_ir", "graftax.convert"):
      with self.subTest(name):
        self.assertFalse(_is_importable(name))

  def test_dependencies_are_xla_call_module_and_jax(self):
    labels = Path("dependencies").read_text().split()
    # `@graftax_repo//folder:target`; Bazel 7 adds characters to the names of repositories.
    ours = {label.rpartition("//")[2].partition(":")[0] for label in labels if re.match("@+graftax_repo[~+]*//", label)}
    self.assertEqual({folder for folder in ours if not folder.startswith("third_party")}, {"xla_call_module"})
    packages = {
      label.partition("//:")[2] for label in labels if re.search("(pypi_cpu|pip)//:", label) and label.endswith(".root")
    }
    self.assertEqual(packages, {f"{n}.root" for n in ("jax", "jaxlib", "ml-dtypes", "numpy", "opt-einsum", "scipy")})


def _is_importable(name: str) -> bool:
  try:
    return importlib.util.find_spec(name) is not None
  except ModuleNotFoundError:  # a parent is missing
    return False


if __name__ == "__main__":
  unittest.main()
