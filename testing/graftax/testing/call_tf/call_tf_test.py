"""`call_tf` under transformations; `python -m graftax.testing.call_tf` runs the table for jax2tf as well."""

import collections
import dataclasses

import pytest

from graftax.testing.call_tf.__main__ import main
from graftax.testing.call_tf.check import check
from graftax.testing.call_tf.transformations import TRANSFORMATIONS
from graftax.testing.harness.results import failures
from graftax.testing.tensorflow_programs.functions import FUNCTIONS

pytestmark = pytest.mark.tensorflow

# A function of each of three kinds; the others are slow tests.
_FAST = ("log_of_exponentials", "custom_gradient_in_a_loop", "affine")


def test_the_table_has_at_least_30_functions():
  assert len(FUNCTIONS) >= 30
  kinds = collections.Counter(row.kind for row in FUNCTIONS.values())
  assert kinds.keys() == {"operations", "loops", "custom_gradients", "variables", "saved"}
  assert set(TRANSFORMATIONS) == {"vmap", "jvp", "jacrev", "hessian", "scan", "remat"}


@pytest.mark.parametrize("name", _FAST)
def test_every_transformation_equals_tensorflow(name):
  assert not failures(check(FUNCTIONS[name], "graftax"))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in _FAST])
def test_every_transformation_of_the_other_functions_equals_tensorflow(name):
  assert not failures(check(FUNCTIONS[name], "graftax"))


def test_the_command_prints_both_converters(capsys):
  status = main(["--function", "sine_of_cosine", "--transformation", "vmap", "--transformation", "remat", "--rows"])
  printed = capsys.readouterr()
  assert status == 0
  assert "| all | 1 | 1 of 1 | 0 of 1 | 1 of 1 |" in printed.out
  assert "| operations/sine_of_cosine | yes | fails | yes |" in printed.out
  assert "jax2tf: operations/sine_of_cosine vmap: raised: NotImplementedError" in printed.err


def test_result_of_another_dtype_is_wrong(monkeypatch):
  transformation = TRANSFORMATIONS["vmap"]
  shorter = dataclasses.replace(transformation, in_jax=lambda f, x: [transformation.in_jax(f, x)[0].astype("float32")])
  monkeypatch.setitem(TRANSFORMATIONS, "vmap", shorter)
  assert failures(check(FUNCTIONS["affine"], "graftax", ["vmap"])).endswith("wrong: dtype float32 instead of float64")
