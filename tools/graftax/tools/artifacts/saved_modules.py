"""Writes dated files of `Module.save`, from what `exported_functions.py` wrote:

    python -m graftax.tools.artifacts.saved_modules xla_call_module/graftax/xla_call_module/testdata

It adds `saved/FUNCTION-DATE.zip` for the files of the newest JAX. Files of earlier dates are never written again.
"""

import datetime
import sys
from pathlib import Path

from graftax.xla_call_module import Module

__all__ = ["write"]

_FUNCTIONS = ("loop", "platforms", "trees")
_WRITTEN_BY = "0.12.0"


def write(folder: Path, date: str) -> None:
  """Writes the files of one date."""
  (folder / "saved").mkdir(exist_ok=True)
  for name in _FUNCTIONS:
    data = (folder / "exported" / f"{name}-{_WRITTEN_BY}.jax").read_bytes()
    Module.from_exported(data).save(folder / "saved" / f"{name}-{date}.zip")


if __name__ == "__main__":
  write(Path(sys.argv[1]), datetime.date.today().isoformat())
