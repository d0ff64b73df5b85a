"""Checks the types of docs/examples with pyright and mypy, against installed wheels: `make typed-examples`.

    .venv/bin/python tools/checks/typed_examples.py dist

The wheels are installed into a fresh environment, so that the checkers see what users see: no source folders and no
editable installs. Other libraries are those of this environment.
"""

import json
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

__all__ = ["main"]

_ROOT = Path(__file__).resolve().parents[2]
_PYRIGHT = "pyright[nodejs]==1.1.414"
# Apache Beam and Ray are not installed.
_LEFT_OUT = "large_data"


def main(wheels: str) -> int:
  with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    python = _environment(folder / "venv", sorted(Path(wheels).glob("*.whl")))
    shutil.copytree(_ROOT / "docs/examples", folder / "examples", ignore=shutil.ignore_patterns(_LEFT_OUT))
    settings = {"typeCheckingMode": "standard", "venvPath": name, "venv": "venv", "include": ["examples"]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    pyright = [python, "-m", "pyright", "--project", name]
    mypy = [sys.executable, "-m", "mypy", "--config-file", "", "--cache-dir", folder / "cache", "--check-untyped-defs"]
    mypy += ["--python-executable", python, "--explicit-package-bases", "--ignore-missing-imports", "examples"]
    failed = [command for command in (pyright, mypy) if subprocess.run(command, cwd=folder).returncode]
  return len(failed)


def _environment(folder: Path, wheels: list[Path]) -> Path:
  """Returns the interpreter of a new environment with the wheels, pyright, and the libraries of this environment."""
  venv.create(folder, with_pip=True)
  python = folder / "bin/python"
  install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
  subprocess.run([*install, "--no-deps", *wheels], check=True)
  subprocess.run([*install, _PYRIGHT], check=True)
  (packages,) = folder.glob("lib/python*/site-packages")
  (packages / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
  return python


if __name__ == "__main__":
  sys.exit(main(sys.argv[1]))
