"""Writes what each release of TensorFlow reads, the table of graftax.xla_call_module.exporting.

    python -m graftax.tools.codegen.generate_tensorflow_versions            # renew the row of the installed TensorFlow
    python -m graftax.tools.codegen.generate_tensorflow_versions PYTHON...  # those of other interpreters' TensorFlow
    python -m graftax.tools.codegen.generate_tensorflow_versions --check    # exit 1 if a row is missing or wrong

Rows of other releases stay. For a release that is not installed, install it in a virtual environment, and pass the
interpreter of that environment.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence

from graftax.tools.codegen.generated_file import REPOSITORY, Release, run_release_generator

_MODULE = "graftax.tools.codegen.generate_tensorflow_versions"
_TARGET = REPOSITORY / "xla_call_module/graftax/xla_call_module/exporting/tensorflow_versions.py"

Table = Mapping[Release, tuple[tuple[int, int, int], int]]

# Runs in the other interpreter, which need not have this package.
_PROBE = """
import json
import tensorflow as tf
from tensorflow.compiler.mlir.stablehlo import stablehlo
from tensorflow.compiler.tf2xla.python import xla
print(json.dumps([tf.__version__, stablehlo.get_current_version(), int(xla.call_module_maximum_supported_version())]))
"""


def read_versions(interpreter: str) -> Table:
  """Returns the row of the TensorFlow of a Python interpreter."""
  done = subprocess.run([interpreter, "-c", _PROBE], check=True, capture_output=True, text=True)
  release, stablehlo_version, call_module_version = json.loads(done.stdout.splitlines()[-1])
  major, minor = map(int, release.split(".")[:2])
  x, y, z = map(int, stablehlo_version.split("."))
  return {(major, minor): ((x, y, z), call_module_version)}


def format_table(table: Table) -> str:
  """Returns the text of the module with the table."""
  rows = "".join(f"  {release}: {versions},\n" for release, versions in sorted(table.items()))
  return (
    '"""What each release of TensorFlow reads; renewed by'
    ' graftax/tools/codegen/generate_tensorflow_versions.py."""\n\n'
    '__all__ = ["TENSORFLOW_VERSIONS"]\n\n'
    "# Release of TensorFlow: (version of StableHLO, version of the XlaCallModule node).\n"
    f"TENSORFLOW_VERSIONS: dict[tuple[int, int], tuple[tuple[int, int, int], int]] = {{\n{rows}}}\n"
  )


def main(args: Sequence[str] | None = None) -> int:
  """Runs the command and returns its exit status."""
  return run_release_generator(__doc__ or "", _MODULE, _TARGET, read_versions, format_table, args)


if __name__ == "__main__":
  sys.exit(main())
