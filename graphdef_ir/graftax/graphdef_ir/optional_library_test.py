import sys

import pytest

from graftax.graphdef_ir import LibraryNotFoundError, optional_library


def test_a_missing_library_is_named_with_its_use_and_what_installs_it(monkeypatch):
  monkeypatch.setitem(sys.modules, "plotting", None)
  want = r"^charts needs plotting, which is not installed; pip install plotting, or use text\.$"
  with (
    pytest.raises(LibraryNotFoundError, match=want) as caught,
    optional_library("charts", "plotting", instead="use text"),
  ):
    import plotting  # noqa: F401
  assert caught.value.name == "plotting"


def test_extras_are_quoted_for_the_shell_and_a_broken_library_says_why(tmp_path, monkeypatch):
  (tmp_path / "broken_library.py").write_text("from math import no_such_name")
  monkeypatch.syspath_prepend(tmp_path)
  want = r"^plots needs .*, which cannot be imported \(.*no_such_name.*\); pip install 'graftax-convert\[plot\]'\.$"
  with pytest.raises(LibraryNotFoundError, match=want), optional_library("plots", "graftax-convert[plot]"):
    import broken_library  # noqa: F401
