"""N-grams of TensorFlow Text, against results that were recorded from its version 2.21.1."""

import numpy as np
import pytest

from graftax.convert.host_ops.string_ngrams import ngrams_string_join
from graftax.convert.host_ops.values import string_array
from graftax.graphdef_ir import Budget, LimitExceededError, Limits
from graftax.ops_jax import InvalidInputError

_TEXT = string_array([b"a", b"bb", b"", b"c\0d", b"e"])
_MATRIX = string_array([b"a", b"b", b"c", b"d", b"e", b"f"]).reshape(2, 3)


def _splits(*rows):
  return [np.array(row, np.int64) for row in rows]


def _joined(values, splits, width, separator=b"|"):
  grams, *found = ngrams_string_join(values, splits, width=width, axis=-1, string_separator=separator)
  return grams.tolist(), [row.tolist() for row in found]


@pytest.mark.parametrize(
  ("width", "grams"),
  [
    (1, [b"a", b"bb", b"", b"c\0d", b"e"]),
    (2, [b"a|bb", b"bb|", b"|c\0d", b"c\0d|e"]),
    (5, [b"a|bb||c\0d|e"]),
    (6, []),
  ],
)
def test_one_row_has_no_splits(width, grams):
  assert _joined(_TEXT, [], width) == (grams, [])


def test_rows_without_splits_are_those_of_the_last_axis():
  assert _joined(_MATRIX, [], 2) == ([[b"a|b", b"b|c"], [b"d|e", b"e|f"]], [])
  assert _joined(_MATRIX, [], 4) == ([[], []], [])
  assert ngrams_string_join(_MATRIX[:0], [], width=2)[0].shape == (0, 2)
  assert ngrams_string_join(_MATRIX[:, :0], [], width=2)[0].shape == (2, 0)


@pytest.mark.parametrize(
  ("width", "grams", "splits"),
  [
    (1, [b"a", b"bb", b"", b"c\0d", b"e"], [0, 3, 3, 5]),
    (2, [b"a--bb", b"bb--", b"c\0d--e"], [0, 2, 2, 3]),
    (3, [b"a--bb--"], [0, 1, 1, 1]),
    (5, [], [0, 0, 0, 0]),
  ],
)
def test_only_the_innermost_splits_change(width, grams, splits):
  assert _joined(_TEXT, _splits([0, 3, 3, 5]), width, b"--") == (grams, [splits])
  assert _joined(_TEXT, _splits([0, 2, 3], [0, 3, 3, 5]), width, b"--") == (grams, [[0, 2, 3], splits])


@pytest.mark.parametrize(
  ("values", "splits", "attrs", "message"),
  [
    (_TEXT, [], {"width": 0}, "width=0"),
    (_MATRIX, _splits([0, 1, 2]), {"width": 2}, r"shape \(2, 3\), 1 row splits"),
    (_TEXT, _splits([0, 3]), {"width": 2}, "do not divide 5 values"),
    (_MATRIX, [], {"width": 2, "axis": 1}, "axis=1"),
  ],
)
def test_other_rows_raise(values, splits, attrs, message):
  with pytest.raises(InvalidInputError, match=message):
    ngrams_string_join(values, splits, **attrs)


def test_n_grams_of_too_many_bytes_raise():
  text = string_array([b"x" * 100] * 100)
  with pytest.raises(LimitExceededError, match="text_bytes"):
    ngrams_string_join(text, [], width=50, budget=Budget(Limits(text_bytes=10_000)))
