"""A page tells which environment variables graftax reads."""

import re

from cleanroom import PACKAGES, ROOT

_PAGE = ROOT / "docs/guides/inspect.md"
# The names of our own variables, and of others that the caches of hub modules read.
_VARIABLE = re.compile(r"\"((?:GRAFTAX|TFHUB|KAGGLEHUB)_[A-Z_]+)\"")


def test_a_page_has_all_variables():
  sources = [path for package in PACKAGES for path in (ROOT / package / "graftax").rglob("*.py")]
  found = {
    name
    for path in sources
    if not path.name.endswith("_test.py") and "testing" not in path.parts
    for name in _VARIABLE.findall(path.read_text(encoding="utf-8"))
  }
  assert {"GRAFTAX_TRACEBACK", "GRAFTAX_ALLOW_FILES_IN", "TFHUB_CACHE_DIR"} <= found
  text = _PAGE.read_text(encoding="utf-8")
  assert not [name for name in found if f"`{name}" not in text]
