"""The expressions that the type checker knows only as Any do not become more."""

import sys

import pytest
from any_expressions import GOLDEN, any_expressions, golden, report, risen


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info < (3, 12), reason="the numbers are those with the newest JAX")
def test_the_expressions_of_type_any_do_not_become_more():
  found = any_expressions(report())
  assert found.keys() == golden().keys()
  assert not risen(found, golden()), (
    f"mypy knows more expressions as Any than {GOLDEN.name} allows: give what is new a type, or say in the commit why"
    " there is none, and renew the file"
  )
