"""The examples in package READMEs run, each file's blocks one after the other."""

import dataclasses
import re

import pytest
from cleanroom import ROOT

from graftax.convert import ConvertOptions

_BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n\nThis prints:\n\n```\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("package", ["hub_io", "savedmodel_io", "xla_call_module"])
def test_examples_run_and_print_what_they_say(package, capsys, monkeypatch):
  monkeypatch.chdir(ROOT)  # some read files of the repository
  path = ROOT / package / "README.md"
  run_examples(path.read_text(encoding="utf-8"), str(path), capsys)


def run_examples(text: str, path: str, capsys: pytest.CaptureFixture[str]) -> None:
  """Runs the blocks of a text one after the other, and compares what they print."""
  namespace: dict[str, object] = {}
  for block in _BLOCK.finditer(text):
    # Errors name lines of the README.
    code = "\n" * text.count("\n", 0, block.start(1)) + block[1]
    exec(compile(code, path, "exec"), namespace)
    printed = capsys.readouterr().out
    assert printed == (block[2] or "")


def test_the_options_of_convert_are_in_its_readme():
  text = (ROOT / "convert/README.md").read_text(encoding="utf-8")
  assert [field.name for field in dataclasses.fields(ConvertOptions) if f"`{field.name}`" not in text] == []
