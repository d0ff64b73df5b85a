"""What is public is written down, and changes of it are deliberate."""

import importlib
import inspect
import sys

import pytest
from cleanroom import PACKAGES
from public_api import ROOT, describe, public_modules

# The same idea in two packages that do not import each other.
_IN_TWO_PACKAGES = {"Limits", "Signature"}


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


def test_two_public_classes_of_one_name_are_related_or_the_same_idea():
  named = {}
  for module in map(importlib.import_module, {name for names in public_modules().values() for name in names}):
    for name in module.__all__:
      value = getattr(module, name)
      if inspect.isclass(value) and value.__module__.startswith("graftax."):
        named.setdefault(name, set()).add(value)
  unrelated = {
    name
    for name, classes in named.items()
    if not all(a in b.__mro__ or b in a.__mro__ for a in classes for b in classes)
  }
  assert unrelated == _IN_TWO_PACKAGES


def test_the_old_name_of_the_origin_of_a_node_warns():
  module = importlib.import_module("graftax.graphdef_ir")
  with pytest.warns(DeprecationWarning, match="NodeOrigin"):
    assert module.Source is module.NodeOrigin
  with pytest.raises(AttributeError, match="no attribute 'NoSuchName'"):
    _ = module.NoSuchName
