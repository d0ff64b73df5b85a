"""The docstring of each package of lowerings is its table of contents."""

import ast
import re
from pathlib import Path

import pytest

_OPS_JAX = Path(__file__).parents[1]
_ROOMS = ["control_flow", "int64_pairs", "lists", "nn", "random"]


def _docstring(path: Path) -> str:
  return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


@pytest.mark.parametrize("room", _ROOMS)
def test_the_contents_list_every_module_with_its_first_sentence(room):
  modules = [path for path in (_OPS_JAX / room).glob("*.py") if not path.stem.endswith(("_test", "__init__"))]
  entries = dict(re.findall(r"^- `(\w+)`: (.+(?:\n  .+)*)", _docstring(_OPS_JAX / room / "__init__.py"), re.MULTILINE))
  listed = {name: " ".join(text.split()) for name, text in entries.items()}
  assert listed == {path.stem: " ".join(_docstring(path).partition("\n\n")[0].split()) for path in modules}
