"""Writes the table of scripts of code points of graftax.convert.host_ops, as the installed TensorFlow tells them.

python -m graftax.tools.codegen.generate_unicode_scripts          # write the table
python -m graftax.tools.codegen.generate_unicode_scripts --check  # exit 1 if it is out of date
"""

import argparse
import pathlib
import sys
from collections.abc import Sequence

import numpy as np

__all__ = ["main", "table"]

_TARGET = pathlib.Path(__file__).resolve().parents[4] / "convert/graftax/convert/host_ops/unicode_scripts.txt"


def table() -> str:
  """Returns the text of the table."""
  import tensorflow as tf

  scripts = tf.strings.unicode_script(np.arange(0x110000, dtype=np.int32)).numpy()
  starts = np.flatnonzero(np.diff(scripts, prepend=-2))
  head = "# First code point of a run, and ICU's number of its script.\n"
  return head + "".join(f"{start:x} {scripts[start]}\n" for start in starts)


def main(args: Sequence[str] | None = None) -> int:
  """Runs the command and returns its exit status."""
  parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
  parser.add_argument("--check", action="store_true", help="exit 1 if the table is out of date, and write nothing")
  text = table()
  if parser.parse_args(args).check:
    return int(_TARGET.read_text(encoding="ascii") != text)
  _TARGET.write_text(text, encoding="ascii")
  return 0


if __name__ == "__main__":
  sys.exit(main())
