"""Bazel's targets of rooms have the deps that their sources import, and no others."""

import ast

import pytest
import room_targets
from cleanroom import PACKAGES, ROOT


@pytest.mark.parametrize("package", PACKAGES)
def test_the_deps_of_rooms_are_what_they_import(package):
  assert (ROOT / package / "rooms.bzl").read_text(encoding="utf-8") == room_targets.text(package), (
    "run `make bazel-rooms`"
  )


@pytest.mark.parametrize("package", PACKAGES)
def test_every_source_of_a_package_is_in_one_room_or_imports_the_package(package):
  rooms = room_targets.rooms(package)
  listed = [path for paths in rooms.values() for path in paths]
  others = set(filter(room_targets.is_shipped, (ROOT / package / "graftax").rglob("*.py"))) - set(listed)
  assert len(listed) == len(set(listed))
  assert {path.parent.name for path in others} <= {package, "examples"}


def test_a_room_that_imports_its_package_is_an_error(tmp_path, monkeypatch):
  folder = tmp_path / "hub_io" / "graftax" / "hub_io"
  folder.mkdir(parents=True)
  (tmp_path / "hub_io" / "BUILD").write_text('p(\n    deps = [\n        "@pypi//numpy",\n    ],\n)\n')
  (folder / "__init__.py").write_text("")
  (folder / "low.py").write_text("import numpy\n")
  (folder / "high.py").write_text("from graftax.graphdef_ir import Node\nfrom graftax.hub_io.low import x\n")
  monkeypatch.setattr(room_targets, "ROOT", tmp_path)
  (rooms,) = ast.parse(room_targets.text("hub_io")).body[1:]
  assert ast.literal_eval(rooms.value) == {"high": [":low", "//graphdef_ir"], "low": ["@pypi//numpy"]}
  (folder / "wrong.py").write_text("from graftax.hub_io import load\n")
  with pytest.raises(ValueError, match="wrong.py imports graftax.hub_io.load of its own package"):
    room_targets.text("hub_io")
