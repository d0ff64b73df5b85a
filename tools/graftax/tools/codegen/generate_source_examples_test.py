"""The models in docs/examples/written_source are what `graftax source` writes today, and short."""

import importlib.util
import re

import jax
import pytest

from graftax.tools.codegen.generate_source_examples import FOLDER, MODELS, exported
from graftax.tools.codegen.generated_file import REPOSITORY
from graftax.tools.commands.source_folder import signature_source

# Texts must have fewer lines: as functions, and as modules.
_LINES = {"lstm_classifier": (60, 90), "bert": (250, 250), "resnet50": (150, 200), "mobilenet_v2": (180, 230)}
_HAS_RUFF = importlib.util.find_spec("ruff") is not None


def _file(name: str) -> str:
  return (FOLDER / f"{name}.py").read_text(encoding="utf-8")


def _num_lines(text: str) -> int:
  return len(text.splitlines())


def test_the_files_are_short_and_the_guide_has_their_lines():
  found = {path.stem: _num_lines(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.py")}
  assert found.keys() == _LINES.keys() == MODELS.keys()
  assert {name for name, lines in found.items() if lines >= _LINES[name][0]} == set()
  guide = (REPOSITORY / "docs/guides/source.md").read_text(encoding="utf-8")
  rows = re.findall(r"^\| \[.+\]\(\.\./examples/written_source/(\w+)\.py\) \| (\d+) \|", guide, re.MULTILINE)
  assert {name: int(lines) for name, lines in rows} == found


@pytest.mark.tensorflow
@pytest.mark.skipif(not _HAS_RUFF, reason="ruff formats the files")
@pytest.mark.skipif(jax.__version_info__ < (0, 12), reason="the plainest form of an operation differs between releases")
@pytest.mark.parametrize(
  "name", [pytest.param(name, marks=() if name == "lstm_classifier" else pytest.mark.slow) for name in MODELS]
)
def test_a_file_is_what_is_written_today(name):
  with exported(name) as model:
    assert signature_source(model).source.text == _file(name), "run `make source-examples`"
    modules = signature_source(model, style="nnx").source.text
  assert _num_lines(modules) < _LINES[name][1]
