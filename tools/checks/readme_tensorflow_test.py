"""The examples in READMEs and in docs/ that need TensorFlow run, and print what the pages say."""

import pytest
import tensorflow as tf  # noqa: F401  # this file runs in the ring with TensorFlow
from cleanroom import ROOT
from doc_examples import needs_tensorflow, pages, rewritten


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page)) for page in pages() if needs_tensorflow(page)])
def test_examples_run_and_print_what_they_say(page):
  assert rewritten(page) == (ROOT / page).read_text(encoding="utf-8")
