"""Tests of texts for errors."""

from graftax.testing.harness.errors import error_text


def test_a_text_has_no_folders_and_no_line_breaks():
  error = ValueError("traced at /opt/c/run.py:43\n for jit, in '/var/x-1/y.py'")
  assert error_text(error, 200) == "ValueError: traced at run.py:43 for jit, in 'y.py'"


def test_names_of_nodes_and_addresses_stay():
  text = "node model/dense/MatMul: 4 / 2, https://docs.jax.dev/en/errors.html and a//b"
  assert error_text(KeyError(text), 200) == f"KeyError: {text!r}"
