"""The script of code points: UnicodeScript.

`unicode_scripts.txt` has the first code point of each run and ICU's number of its script. It is what TensorFlow 2.21
says, with Unicode 13; `graftax.tools.codegen.generate_unicode_scripts` writes it.
"""

import functools
import importlib.resources

import numpy as np

from graftax.convert.host_ops.registry import host_op

__all__ = ["unicode_script"]

_NUM_CODE_POINTS = 0x110000
_INVALID = -1


@host_op("UnicodeScript")
def unicode_script(input_: np.ndarray) -> np.ndarray:
  """Returns ICU's number of the script of each code point, int32; -1 for numbers that are not code points."""
  starts, scripts = _runs()
  found = scripts[np.searchsorted(starts, np.clip(input_, 0, _NUM_CODE_POINTS - 1), side="right") - 1]
  return np.where((input_ >= 0) & (input_ < _NUM_CODE_POINTS), found, _INVALID).astype(np.int32)


@functools.cache
def _runs() -> tuple[np.ndarray, np.ndarray]:
  text = importlib.resources.files(__package__).joinpath("unicode_scripts.txt").read_text(encoding="ascii")
  pairs = [line.split() for line in text.splitlines() if not line.startswith("#")]
  return np.array([int(start, 16) for start, _ in pairs]), np.array([int(script) for _, script in pairs], np.int32)
