"""The example of sizes that depend on data in the root README runs, and prints what it says. It needs TensorFlow."""

import tensorflow as tf  # noqa: F401  # this file runs in the ring with TensorFlow
from cleanroom import ROOT
from readme_test import run_examples


def test_the_example_prints_what_it_says(capsys):
  text = (ROOT / "README.md").read_text(encoding="utf-8")
  start = text.index("## Sizes that depend on data")
  run_examples(text[start : text.index("\n## ", start)], "README.md", capsys)
