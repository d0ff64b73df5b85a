"""The examples in READMEs and in docs/ that need TensorFlow run, and print what the pages say."""

import sys

import pytest
import tensorflow as tf  # noqa: F401  # this file runs in the ring with TensorFlow
from cleanroom import ROOT
from doc_examples import needs_tensorflow, pages, rewritten

# Show what `jax.experimental.jax2tf` does in the main environment; that of the oldest JAX takes the same call.
_OF_MAIN_ENVIRONMENT = ("docs/migration/from_jax2tf.md",)
_IF_MAIN = pytest.mark.skipif(sys.version_info < (3, 12), reason="the page shows what other packages of main.txt print")


@pytest.mark.parametrize(
  "page",
  [
    pytest.param(page, id=str(page), marks=[_IF_MAIN] if str(page) in _OF_MAIN_ENVIRONMENT else [])
    for page in pages()
    if needs_tensorflow(page)
  ],
)
def test_examples_run_and_print_what_they_say(page):
  assert rewritten(page) == (ROOT / page).read_text(encoding="utf-8")
