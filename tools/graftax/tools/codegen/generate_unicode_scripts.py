"""Writes the table of scripts of code points of graftax.convert.host_ops, as the installed TensorFlow tells them.

python -m graftax.tools.codegen.generate_unicode_scripts          # write the table
python -m graftax.tools.codegen.generate_unicode_scripts --check  # exit 1 if it is out of date
"""

import sys
from collections.abc import Sequence

import numpy as np

from graftax.tools.codegen.generated_file import REPOSITORY, run_generator

__all__ = ["main", "table"]

_MODULE = "graftax.tools.codegen.generate_unicode_scripts"
_TARGET = REPOSITORY / "convert/graftax/convert/host_ops/unicode_scripts.txt"


def table() -> str:
  """Returns the text of the table."""
  import tensorflow as tf

  scripts = tf.strings.unicode_script(np.arange(0x110000, dtype=np.int32)).numpy()
  starts = np.flatnonzero(np.diff(scripts, prepend=-2))
  head = "# First code point of a run, and ICU's number of its script.\n"
  return head + "".join(f"{start:x} {scripts[start]}\n" for start in starts)


def main(args: Sequence[str] | None = None) -> int:
  """Runs the command and returns its exit status."""
  return run_generator(__doc__ or "", _MODULE, _TARGET, table, args)


if __name__ == "__main__":
  sys.exit(main())
