"""find_python.sh prints an interpreter that can be used, or says what it found."""

import os
import subprocess
from pathlib import Path

import pytest
from cleanroom import ROOT

# No machine has these versions, so only the interpreters that a test makes are found.
_NEWER, _OLDER = "3.98", "3.97"


@pytest.fixture
def folder(tmp_path) -> Path:
  (tmp_path / "bin").mkdir()
  return tmp_path


def _interpreter(path: Path, answer: str) -> Path:
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(f"#!/bin/sh\n{answer}\n")
  path.chmod(0o755)
  return path


def _find(folder: Path, *versions: str) -> subprocess.CompletedProcess[str]:
  environment = {"PATH": f"{folder / 'bin'}{os.pathsep}/usr/bin:/bin", "PYENV_ROOT": str(folder / "pyenv")}
  command = [str(ROOT / "third_party/find_python.sh"), *versions]
  return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_the_first_version_that_is_found_is_printed(folder):
  older = _interpreter(folder / f"bin/python{_OLDER}", f"echo {_OLDER}")
  assert _find(folder, _NEWER, _OLDER).stdout == f"{older}\n"
  newer = _interpreter(folder / "bin/python3", f"echo {_NEWER}")
  assert _find(folder, _NEWER, _OLDER).stdout == f"{newer}\n"


def test_a_shim_that_does_not_run_is_passed_over(folder):
  _interpreter(folder / f"bin/python{_NEWER}", "exit 127")
  installed = _interpreter(folder / f"pyenv/versions/{_NEWER}.1/bin/python", f"echo {_NEWER}")
  assert _find(folder, _NEWER).stdout == f"{installed}\n"


def test_without_a_usable_interpreter_the_message_says_what_was_found(folder):
  shim = _interpreter(folder / f"bin/python{_NEWER}", "echo not selected >&2; exit 127")
  found = _find(folder, _NEWER, _OLDER)
  assert found.returncode == 1
  assert not found.stdout
  assert f"one of these versions is needed, with venv and pip: {_NEWER} {_OLDER}." in found.stderr
  assert f"{shim}: not selected" in found.stderr
