from pathlib import Path

import jax
import numpy as np
import pytest

from graftax.savedmodel_io import load, nest, rename
from graftax.savedmodel_io.errors import ParameterNameError

_DATA = Path(__file__).parents[1] / "testdata/2026_11_21"
_PARAMS = {"a/w": np.zeros((2, 3)), "a/b": np.zeros(3), "b/w": np.zeros((3, 4)), "step": np.zeros(())}


def test_a_model_of_keras_fits_a_program_of_ones_own():
  variables = load(_DATA / "keras_export").variables
  table = {
    r"sequential/head/(kernel|bias)": r"head/\1",
    r"sequential/norm/(gamma|beta)": r"norm/\1",
    r"sequential/norm/moving_(mean|variance)": r"batch_stats/\1",
  }
  f32 = jax.ShapeDtypeStruct
  like = {
    "head": {"kernel": f32((2, 1), np.float32), "bias": f32((1,), np.float32)},
    "norm": {"gamma": f32((2,), np.float32), "beta": f32((2,), np.float32)},
    "batch_stats": {"mean": f32((2,), np.float32), "variance": f32((2,), np.float32)},
  }
  renamed, report = rename(variables, {**table, r".*_1": None}, like)
  assert report.is_complete, str(report)
  assert jax.tree.structure(nest(renamed)) == jax.tree.structure(like)
  np.testing.assert_array_equal(renamed["head/kernel"], variables["sequential/head/kernel"])


def test_what_did_not_fit_is_reported():
  like = {"x": np.zeros((2, 3)), "y": np.zeros((4, 3)), "z": np.zeros(1)}
  renamed, report = rename(_PARAMS, {"a/w": "x", "b/w": "y", "a/b": "q", "c": "r", "d/.*": None}, like)
  assert list(renamed) == ["x", "q"]
  assert report.matched == {"a/w": "x", "b/w": "y", "a/b": "q"}
  assert report.unmatched == ("step",)
  assert report.unused == ("c", "d/.*")
  assert report.missing == ("z",)
  assert report.unexpected == {"q": "a/b"}
  assert report.mismatched == {"y": ((3, 4), (4, 3))}
  assert not report.is_complete
  assert str(report).splitlines() == [
    "3 renamed, 0 dropped",
    "not in the table: step",
    "rows that fit nothing: c, d/.*",
    "expected, but missing: z",
    "not expected: q (of a/b)",
    "of another shape: y: (3, 4), expected (4, 3)",
  ]


def test_like_may_hold_names_with_slashes():
  renamed, report = rename({"a": np.zeros(2)}, {"a": "x/y"}, {"x/y": np.ones(2), "z": np.ones(1)})
  assert list(renamed) == ["x/y"]
  assert report.missing == ("z",)
  assert not report.unexpected


def test_without_like_shapes_are_free():
  renamed, report = rename(_PARAMS, {r"(.)/(.)": r"\2/\1", "step": None})
  assert list(renamed) == ["w/a", "b/a", "w/b"]
  assert report.dropped == ("step",)
  assert report.is_complete


def test_a_name_of_a_parameter_is_not_read_as_a_pattern():
  renamed, _ = rename({"a.b": 1, "axb": 2}, {"a.b": "exact", "a.*": "pattern"})
  assert renamed == {"exact": 1, "pattern": 2}


@pytest.mark.parametrize(
  ("table", "message"),
  [
    ({".*/w": "w"}, "'a/w' and 'b/w' both get the name 'w'"),
    ({"(": "w"}, "row '.': 'w' of the table is not a regular expression"),
    ({"a/.": r"\1"}, "is not a regular expression: invalid group reference"),
  ],
)
def test_tables_that_contradict_themselves_raise(table, message):
  with pytest.raises(ParameterNameError, match=message):
    rename(_PARAMS, table)
