"""The cache while tensorflow_hub, which has other locks, writes to it."""

import os

import pytest

from graftax.hub_io.errors import DownloadError
from graftax.hub_io.tfhub_cache import TfHubEntry


def _write_new(folder):
  (folder / "saved_model.pb").write_text("new")


def _put_something_before_renaming(monkeypatch, entry, times):
  """Lets another process put a module into the entry before `times` of the renames to it."""
  rename, remaining = os.rename, [times]

  def racing(source, target):
    if target == entry.folder and remaining[0]:
      remaining[0] -= 1
      entry.folder.mkdir()
      (entry.folder / "saved_model.pb").write_text("theirs")
    rename(source, target)

  monkeypatch.setattr(os, "rename", racing)


@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize("times", [1, 3])
def test_an_entry_that_is_put_there_meanwhile_is_replaced(tmp_path, monkeypatch, is_there, times):
  entry = TfHubEntry("https://example.com/m/1", tmp_path)
  if is_there:
    entry.replace(lambda folder: (folder / "saved_model.pb").write_text("old"))
  _put_something_before_renaming(monkeypatch, entry, times)
  assert (entry.replace(_write_new) / "saved_model.pb").read_text() == "new"
  assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [entry.folder.name]


def test_an_entry_that_is_put_there_again_and_again_is_a_typed_error(tmp_path, monkeypatch):
  entry = TfHubEntry("https://example.com/m/1", tmp_path)
  _put_something_before_renaming(monkeypatch, entry, 100)
  with pytest.raises(DownloadError, match="https://example.com/m/1: .* cannot be replaced"):
    entry.replace(_write_new)
  assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [entry.folder.name]
