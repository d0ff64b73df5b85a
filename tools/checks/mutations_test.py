"""The broken places of `mutations.py` still exist, so that `make mutation-check` breaks what it says."""

import pytest
from cleanroom import ROOT
from mutations import MUTATIONS


def test_the_names_of_places_are_distinct():
  assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS) >= 30


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_the_right_text_occurs_once(mutation):
  assert mutation.applied((ROOT / mutation.path).read_text(encoding="utf-8"))


@pytest.mark.parametrize("mutation", [m for m in MUTATIONS if m.tests], ids=lambda mutation: mutation.name)
def test_named_test_files_exist(mutation):
  assert [path for path in mutation.tests if not (ROOT / path).exists()] == []
