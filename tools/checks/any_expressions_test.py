"""The share of expressions that the type checker knows only as Any does not rise."""

import sys

import pytest
from any_expressions import GOLDEN, golden, report, risen, shares


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info < (3, 12), reason="the shares are those with the newest JAX")
def test_the_share_of_any_does_not_rise():
  found = shares(report())
  assert found.keys() == golden().keys()
  assert not risen(found, golden()), (
    f"mypy knows more expressions as Any than {GOLDEN.name} allows: give what is new a type, or say in the commit why"
    " there is none, and renew the file"
  )
