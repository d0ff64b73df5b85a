"""Runs pip with the environment markers of another system.

    python tools/packaging/pip_elsewhere.py '{"sys_platform": "win32", ...}' install --dry-run ...

pip's `--platform` and `--python-version` choose wheels, but pip evaluates markers such as `sys_platform == "win32"` for
the interpreter that runs it. There is no option for that, so this replaces the function that describes the interpreter.
"""

import json
import sys

from pip._internal.cli.main import main
from pip._vendor.packaging import markers


def run(environment: dict[str, str], arguments: list[str]) -> int:
  """Returns the exit status of pip, with the given values of the markers."""
  full = {**markers.default_environment(), **environment}
  markers.default_environment = lambda: full  # type: ignore[assignment]
  return main(arguments)


if __name__ == "__main__":
  sys.exit(run(json.loads(sys.argv[1]), sys.argv[2:]))
