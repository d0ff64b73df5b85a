"""The page counts what is right, and tells what is not."""

import pytest

from graftax.testing.written_models.page import outcome, page_text, problem

_RIGHT = {
  "name": "zoo/a",
  "lines": 9,
  "functions": 2,
  "recovered": 0.25,
  "instructions": 100,
  "written_instructions": 102,
  "value": 0.0,
  "gradient": 1e-7,
}


@pytest.mark.parametrize(
  "change, expected",
  [
    ({}, "right"),
    ({"value": 2e-5}, "wrong"),
    ({"gradient": float("nan")}, "wrong"),
    ({"written_instructions": 103}, "longer"),
    ({"error": "no jax"}, "failed"),
    ({"error": "no source", "refused": True}, "refused"),
  ],
)
def test_a_row_has_one_outcome(change, expected):
  row = {**_RIGHT, **change}
  assert outcome(row) == expected
  assert problem(row).startswith("" if expected == "right" else f"{expected}: ")
  assert bool(problem(row)) == (expected != "right")


def test_the_page_has_counts_of_each_kind_and_each_problem():
  rows = [
    _RIGHT,
    {**_RIGHT, "name": "keras/B", "value": 1.0, "gradient": 0.0},
    {"name": "stablehlo/c", "error": "exit 3: `x`"},
  ]
  text = page_text(rows, ["zoo/a", "keras/B", "stablehlo/c", "stablehlo/d"], "jax 1")
  assert "| graftax.testing.zoo | 1 | 1 | 0 | 0 | 1 | 1 | 1 | 1 of 1 | 0 | 1 | 1 |" in text
  assert "| all | 4 | 3 | 0 | 1 | 2 | 1 | 1 | 2 of 2 | 1 | 2 | 1 |" in text
  assert "- keras/B: `` wrong: value differs by 1 ``" in text
  assert "- stablehlo/c: `` failed: exit 3: 'x' ``" in text
  assert "- Not run: stablehlo/d\n" in text
  assert "| zoo/a | right | 9 | 2 | 25% | 1.020 | 0 | 1e-07 |" in text
