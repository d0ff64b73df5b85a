"""docs/errors.md is what its generator writes, and its programs raise their errors."""

import importlib.util
import re

import jax
import pytest

from graftax.tools.codegen.error_examples import EXAMPLES, WITHOUT_PROGRAM
from graftax.tools.codegen.generate_error_index import ENVIRONMENT, error_index, messages, public_errors
from graftax.tools.codegen.generated_file import REPOSITORY

_HAS_RUFF = importlib.util.find_spec("ruff") is not None


def _page() -> str:
  return (REPOSITORY / "docs/errors.md").read_text(encoding="utf-8")


def test_every_public_error_says_what_works():
  assert {e.__name__ for e in public_errors() if not EXAMPLES.get(e, ("", ""))[1]} == set()


def test_every_public_error_has_a_program_unless_it_is_a_base_class_or_a_reason_says_why():
  bases = {base for error in public_errors() for base in error.__mro__[1:]}
  without = {e for e in public_errors() if not EXAMPLES.get(e, ("", ""))[0] and not issubclass(e, Warning)} - bases
  assert without == WITHOUT_PROGRAM.keys()


@pytest.mark.skipif(not _HAS_RUFF, reason="ruff formats the programs")
def test_the_checked_in_page_is_current_but_for_messages():
  found = {}
  for error, module in public_errors().items():
    entry = _page().partition(f"`{module}.{error.__name__}`, a ")[2].partition("\n### ")[0]
    if message := re.search(rf"^```\n{error.__name__}: (.*?)\n```$", entry, re.MULTILINE | re.DOTALL):
      found[error] = message[1]
  assert len(found) > 40
  assert error_index(found) == _page(), "run `make error-index`"


@pytest.mark.slow  # 3 to 10 s; texts of messages are tested beside the code that raises them
def test_the_programs_raise_their_errors_with_the_messages_on_the_page(monkeypatch):
  for name, value in ENVIRONMENT.items():
    monkeypatch.setenv(name, value)
  found = messages()
  if _HAS_RUFF and jax.__version_info__ >= (0, 12):  # some messages are those of XLA
    assert error_index(found) == _page(), "run `make error-index`"
