"""What is public is written down, and changes of it are deliberate."""

import importlib
import sys

import pytest
from cleanroom import PACKAGES
from public_api import ROOT, describe, public_modules


def test_every_package_has_public_modules():
  assert sorted(public_modules()) == sorted(PACKAGES)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.11 writes the types of signatures in other words")
@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_are_those_of_the_golden_list(package):
  written = (ROOT / package / "public_api.txt").read_text(encoding="utf-8")
  assert describe(package) == written, "run `make public-api`, look at the difference, and note it in the CHANGELOG"


@pytest.mark.parametrize("name", [name for names in public_modules().values() for name in names])
def test_public_modules_have_documented_names(name):
  module = importlib.import_module(name)
  undocumented = [n for n in module.__all__ if callable(getattr(module, n)) and not getattr(module, n).__doc__]
  assert module.__doc__ and not undocumented
