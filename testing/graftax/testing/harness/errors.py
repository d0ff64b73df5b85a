"""Errors as short texts that are the same on every machine."""

import re

__all__ = ["error_text", "without_folders"]

_FOLDERS = re.compile(r"(?<![\w.:/])/(?:[^\s/:'\"]+/)+")


def error_text(error: BaseException, max_length: int) -> str:
  """Returns the type and the message of an error in one line. Files in it are without their folders.

  >>> error_text(ValueError("no number\\n in /opt/c/run.py:3"), 80)
  'ValueError: no number in run.py:3'
  """
  return f"{type(error).__name__}: {without_folders(' '.join(str(error).split()))}"[:max_length]


def without_folders(text: str) -> str:
  """Returns a text in which files are without their folders; names with slashes that are not paths stay.

  >>> without_folders("in /opt/c/run.py: scope map/while/body")
  'in run.py: scope map/while/body'
  """
  return _FOLDERS.sub("", text)
