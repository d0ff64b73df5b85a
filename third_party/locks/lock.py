"""Resolves `<variant>.in` beside this file into a hash-locked `<variant>.txt`, and prints the difference.

    .venv/bin/python third_party/locks/lock.py main cuda12
    .venv/bin/python third_party/locks/lock.py --keep cuda12    # versions change only if cuda12.in requires it

pip only resolves and reports: nothing is installed, and accelerator wheels are not downloaded. A lock is for CPython
3.13 and 3.12 on manylinux x86_64, and floor.txt for CPython 3.11. These interpreters must be installed (see
`third_party/find_python.sh`). Versions are resolved with the first one; for the other, the hashes of its wheels are
added. main.txt constrains the versions of the accelerators, so that all of these have the same JAX stack. `sources.txt`
records which requirements each lock was made from; a test fails if they have changed since.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_ACCELERATORS = ("cuda12", "cuda13", "tpu")
_NO_DEPS = "# no-deps"
# Ignore the machine's settings (extra indexes, local wheel folders), because others install the lock from PyPI.
_MACHINE_SETTINGS = ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT", "PIP_REQUIREMENT")


@dataclass(frozen=True, slots=True)
class Pin:
  """A locked distribution.

  Attributes:
    digests: sha256 of its wheels, one for each Python that needs another wheel.
    pythons: the Pythons that it is for.
  """

  version: str
  digests: tuple[str, ...]
  pythons: tuple[str, ...]


def pythons_of(variant: str) -> tuple[str, ...]:
  """Returns the minor versions of Python that a lock is for; versions of packages are resolved with the first."""
  return ("3.11",) if variant == "floor" else ("3.13", "3.12")


def _requirements(source: Path) -> tuple[list[str], list[str]]:
  """Returns the requirements of one .in file: those to resolve with dependencies, and those without."""
  with_deps, without_deps = [], []
  for line in source.read_text().splitlines():
    requirement = line.split("#", 1)[0].strip()
    if requirement:
      (without_deps if _NO_DEPS in line else with_deps).append(requirement)
  return with_deps, without_deps


def _find_python(version: str) -> str:
  if sys.version_info[:2] == tuple(map(int, version.split("."))):
    return sys.executable
  command = [str(_HERE.parent / "find_python.sh"), version]
  return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def _resolve(python: str, requirements: list[str], *options: str) -> list[dict]:
  """Returns the `install` entries of pip's report for the given requirements under an interpreter."""
  if not requirements:
    return []
  environment = {k: v for k, v in os.environ.items() if k not in _MACHINE_SETTINGS} | {"PIP_CONFIG_FILE": os.devnull}
  with tempfile.TemporaryDirectory() as folder:
    report = Path(folder, "report.json")
    command = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--dry-run"]
    command += ["--ignore-installed", "--only-binary", ":all:", "--report", str(report), *options, *requirements]
    subprocess.run(command, check=True, env=environment)
    return json.loads(report.read_text())["install"]


def _constraints(versions: dict[str, str], folder: Path) -> list[str]:
  """Returns pip options that restrict packages to the given versions."""
  constraints = folder / "constraints.txt"
  constraints.write_text("\n".join(f"{name}=={version}" for name, version in versions.items()))
  return ["--constraint", str(constraints)]


def _resolve_all(source: Path, pythons: tuple[str, ...], versions: dict[str, str]) -> dict[str, Pin]:
  """Returns the pins of an .in file for all given Pythons, with the given versions where they are required."""
  with_deps, without_deps = _requirements(source)
  pins: dict[str, Pin] = {}
  for python in pythons:
    versions = versions | {name: pin.version for name, pin in pins.items()}
    interpreter = _find_python(python)
    with tempfile.TemporaryDirectory() as folder:
      constraints = _constraints(versions, Path(folder))
      entries = _resolve(interpreter, with_deps, *constraints)
      entries += _resolve(interpreter, without_deps, "--no-deps", *constraints)
    for entry in entries:
      name = entry["metadata"]["name"].lower().replace("_", "-")
      digest = entry["download_info"]["archive_info"]["hashes"]["sha256"]
      before = pins.get(name, Pin(entry["metadata"]["version"], (), ()))
      digests = tuple(dict.fromkeys((*before.digests, digest)))
      pins[name] = Pin(before.version, digests, (*before.pythons, python))
  return pins


def pin_line(name: str, pin: Pin, pythons: tuple[str, ...]) -> str:
  """Returns a line of a lock for the given Pythons."""
  hashes = " ".join(f"--hash=sha256:{digest}" for digest in pin.digests)
  marker = "" if pin.pythons == pythons else f' ; python_version == "{pin.pythons[0]}"'
  return f"{name}=={pin.version}{marker} {hashes}\n"


def read_pins(path: Path) -> dict[str, str]:
  """Returns the locked versions by name; none if there is no lock yet."""
  lines = path.read_text().splitlines() if path.exists() else []
  return dict(line.split(" ", 1)[0].split("==") for line in lines if "==" in line)


def sources_digest(source: Path) -> str:
  """Returns a hash of the requirements in an .in file, which comments do not change."""
  return hashlib.sha256(repr(_requirements(source)).encode()).hexdigest()


def read_sources() -> dict[str, str]:
  """Returns, by variant, the hash of the requirements that its lock was made from."""
  lines = (_HERE / "sources.txt").read_text().splitlines()
  return {name: digest for digest, name in map(str.split, lines)}


def _record_sources(variant: str) -> None:
  digests = read_sources() | {variant: sources_digest(_HERE / f"{variant}.in")}
  lines = [f"{digest} {name}\n" for name, digest in sorted(digests.items())]
  (_HERE / "sources.txt").write_text("".join(lines))


def difference(before: dict[str, str], after: dict[str, str]) -> list[str]:
  """Returns a line for each package that was added, removed, or has another version."""
  lines = []
  for name in sorted(before.keys() | after.keys()):
    if before.get(name) != after.get(name):
      lines.append(f"{name}: {before.get(name, 'new')} -> {after.get(name, 'removed')}")
  return lines


def lock(variant: str, *, keep: bool = False) -> list[str]:
  """Writes `<variant>.txt` and returns the difference from the lock before."""
  target = _HERE / f"{variant}.txt"
  before = read_pins(target)
  versions = before if keep else {}
  if variant in _ACCELERATORS:
    versions = versions | read_pins(_HERE / "main.txt")
  pythons = pythons_of(variant)
  pins = _resolve_all(target.with_suffix(".in"), pythons, versions)
  source = target.with_suffix(".in").name
  interpreters = " and ".join(f"CPython {python}" for python in pythons)
  header = f"# Made by third_party/locks/lock.py from {source}: {interpreters}, manylinux x86_64. Do not edit.\n"
  target.write_text(header + "".join(pin_line(name, pin, pythons) for name, pin in sorted(pins.items())))
  _record_sources(variant)
  return difference(before, read_pins(target))


def main() -> None:
  parser = argparse.ArgumentParser(description="Resolve <variant>.in into a hash-locked <variant>.txt.")
  parser.add_argument(
    "variants", nargs="+", help="names or relative paths of .in files, without the ending; main first"
  )
  parser.add_argument("--keep", action="store_true", help="keep the locked versions where the requirements allow it")
  arguments = parser.parse_args()
  for variant in arguments.variants:
    changes = lock(variant, keep=arguments.keep)
    print("\n  ".join([f"{variant}: {len(changes)} changes", *changes]), flush=True)


if __name__ == "__main__":
  main()
