"""find_python.sh prints an interpreter that can be used, or says what it found."""

import os
import shutil
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


def _find(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
  environment = {"PATH": f"{folder / 'bin'}{os.pathsep}/usr/bin:/bin", "PYENV_ROOT": str(folder / "pyenv")}
  command = [str(ROOT / "third_party/find_python.sh"), *arguments]
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


# `uv python find` finds what `uv python install` has made.
_UV = """
found=$0.installed/python$3
case $2 in
  find) [ -x "$found" ] && echo "$found" ;;
  install)
    mkdir -p "$0.installed"
    printf '#!/bin/sh\\necho %s\\n' "$3" > "$found"
    chmod +x "$found"
    echo installing ;;
esac
"""


def test_uv_installs_the_first_version_only_if_it_may_and_none_is_found(folder):
  uv = _interpreter(folder / "bin/uv", _UV)
  assert _find(folder, _NEWER, _OLDER).returncode == 1
  found = _find(folder, "--install", _NEWER, _OLDER)
  assert found.stdout == f"{uv}.installed/python{_NEWER}\n"
  assert "installing" in found.stderr
  assert _find(folder, _NEWER, _OLDER).stdout == found.stdout
  older = _interpreter(folder / f"bin/python{_OLDER}", f"echo {_OLDER}")
  assert _find(folder, "--install", "3.96", _OLDER).stdout == f"{older}\n"


def _make(folder: Path, *pythons: str) -> subprocess.CompletedProcess[str]:
  """Returns what `make -n venv` prints where only interpreters of the given versions are found."""
  commands = ("bash", "env", "sed", "sha256sum", "cat", "dirname", "id", "echo", "date", "make", "realpath")
  for command in commands:
    (folder / "bin" / command).symlink_to(shutil.which(command) or command)
  for python in pythons:
    _interpreter(folder / f"bin/python{python}", f"echo {python}")
  environment = {"PATH": str(folder / "bin"), "HOME": str(folder)}
  command = ["make", "-n", "venv", f"VENV={folder / 'venv'}"]
  return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
  ("pythons", "chosen", "lock"),
  [
    (("3.11", "3.12", "3.13"), "3.13", "main"),
    (("3.11", "3.12"), "3.12", "main"),
    (("3.11",), "3.11", "floor"),
  ],
)
def test_make_takes_the_newest_python_and_the_lock_for_it(folder, pythons, chosen, lock):
  made = _make(folder, *pythons)
  assert f"python={folder}/bin/python{chosen};" in made.stdout, made.stderr
  assert f"-r third_party/locks/{lock}.txt" in made.stdout


def test_make_lets_find_python_say_what_is_missing_or_install_it(folder):
  made = _make(folder)
  assert "python=$(third_party/find_python.sh --install 3.13 3.12 3.11);" in made.stdout, made.stderr
  assert "-r third_party/locks/main.txt" in made.stdout
