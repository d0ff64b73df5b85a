"""The examples in READMEs and in docs/ run, and print what the pages say. Those that need TensorFlow are elsewhere."""

import dataclasses

import pytest
from cleanroom import ROOT
from doc_examples import needs_tensorflow, pages, rewritten

from graftax.convert import ConvertOptions

# Pages whose examples take more than a few seconds.
_SLOW = ("docs/guides/fine_tuning.md",)


@pytest.mark.parametrize(
  "page",
  [
    pytest.param(page, id=str(page), marks=[pytest.mark.slow] if str(page) in _SLOW else [])
    for page in pages()
    if not needs_tensorflow(page)
  ],
)
def test_examples_run_and_print_what_they_say(page):
  assert rewritten(page) == (ROOT / page).read_text(encoding="utf-8")


def test_the_options_of_convert_are_in_its_readme():
  text = (ROOT / "convert/README.md").read_text(encoding="utf-8")
  assert [field.name for field in dataclasses.fields(ConvertOptions) if f"`{field.name}`" not in text] == []
