"""Paths with the second separator of Windows."""

import os

import pytest

from graftax.graphdef_ir import ModelFolder, UnsafeFileError, model_folder


@pytest.fixture
def second_separator(monkeypatch):
  """Gives paths a second separator for the code that splits them, as on Windows."""
  monkeypatch.setattr(model_folder.os, "altsep", "/")


def test_paths_with_the_second_separator_are_resolved_by_the_system(second_separator, tmp_path):
  (tmp_path / "model").mkdir()
  (tmp_path / "secret").touch()
  (tmp_path / "model/a").touch()
  assert model_folder._without_links(os.path.join(tmp_path, "model", "a"), str(tmp_path), str(tmp_path)) is None
  folder = ModelFolder.of(tmp_path / "model")
  assert folder.resolved(tmp_path / "model/a", "x") == os.path.realpath(tmp_path / "model/a")
  with pytest.raises(UnsafeFileError):
    folder.resolved(tmp_path / "model/../secret", "x")
