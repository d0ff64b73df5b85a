"""The expressions that the type checker knows only as Any do not become more."""

import sys

import pytest
from any_expressions import GOLDEN, any_expressions, golden, report, risen


@pytest.mark.slow
def test_expressions_of_an_alias_of_any_are_counted(tmp_path):
  names = tmp_path / "names.py"
  names.write_text("from typing import Any, TypeAlias\n\nPyTree: TypeAlias = Any\n", encoding="utf-8")
  text = "from {0} import {1}\n\ndef last(tree: {1}) -> object:\n  return tree[-1].value\n"
  plain, named = tmp_path / "plain.py", tmp_path / "named.py"
  plain.write_text(text.format("typing", "Any"), encoding="utf-8")
  named.write_text(text.format("names", "PyTree"), encoding="utf-8")
  rows = {row[0]: row[1:] for row in map(str.split, report(names, plain, named)) if len(row) == 4}
  assert rows["named"] == rows["plain"]
  assert int(rows["plain"][0]) > 0


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info < (3, 12), reason="the numbers are those with the newest JAX")
def test_the_expressions_of_type_any_do_not_become_more():
  found = any_expressions(report())
  assert found.keys() == golden().keys()
  assert not risen(found, golden()), (
    f"mypy knows more expressions as Any than {GOLDEN.name} allows: give what is new a type, or say in the commit why"
    " there is none, and renew the file"
  )
