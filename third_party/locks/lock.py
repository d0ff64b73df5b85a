"""Resolves `<variant>.in` beside this file into a hash-locked `<variant>.txt`, and prints the difference.

    python3.11 third_party/locks/lock.py cpu cuda12
    python3.11 third_party/locks/lock.py --keep cuda12    # versions change only if cuda12.in requires it

pip only resolves and reports: nothing is installed, and accelerator wheels are not downloaded. The lock is for the
Python and the platform that run this script, CPython 3.11 on manylinux x86_64. cpu.txt constrains the versions of the
accelerators, so that all of these have the same JAX stack. `sources.txt` records which requirements each lock was made
from; a test fails if they have changed since.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_ACCELERATORS = ("cuda12", "cuda13", "tpu")
_NO_DEPS = "# no-deps"
# Ignore the machine's settings (extra indexes, local wheel folders), because others install the lock from PyPI.
_MACHINE_SETTINGS = ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT", "PIP_REQUIREMENT")


def _requirements(source: Path) -> tuple[list[str], list[str]]:
  """Returns the requirements of one .in file: those to resolve with dependencies, and those without."""
  with_deps, without_deps = [], []
  for line in source.read_text().splitlines():
    requirement = line.split("#", 1)[0].strip()
    if requirement:
      (without_deps if _NO_DEPS in line else with_deps).append(requirement)
  return with_deps, without_deps


def _resolve(requirements: list[str], *options: str) -> list[dict]:
  """Returns the `install` entries of pip's report for the given requirements."""
  if not requirements:
    return []
  environment = {k: v for k, v in os.environ.items() if k not in _MACHINE_SETTINGS} | {"PIP_CONFIG_FILE": os.devnull}
  with tempfile.TemporaryDirectory() as folder:
    report = Path(folder, "report.json")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
    command += ["--only-binary", ":all:", "--report", str(report), *options, *requirements]
    subprocess.run(command, check=True, env=environment)
    return json.loads(report.read_text())["install"]


def _pins(entries: list[dict]) -> str:
  lines = []
  for entry in entries:
    name = entry["metadata"]["name"].lower().replace("_", "-")
    digest = entry["download_info"]["archive_info"]["hashes"]["sha256"]
    lines.append(f"{name}=={entry['metadata']['version']} --hash=sha256:{digest}\n")
  return "".join(sorted(lines))


def read_pins(path: Path) -> dict[str, str]:
  """Returns the locked versions by name; none if there is no lock yet."""
  lines = path.read_text().splitlines() if path.exists() else []
  return dict(line.split(" --hash", 1)[0].split("==") for line in lines if "==" in line)


def _constraints(variant: str, folder: Path, *, keep: bool) -> list[str]:
  """Returns pip options that restrict an accelerator to the versions of the cpu lock, and with `keep` to its own."""
  versions = read_pins(_HERE / f"{variant}.txt") if keep else {}
  if variant in _ACCELERATORS:
    versions |= read_pins(_HERE / "cpu.txt")
  constraints = folder / "constraints.txt"
  constraints.write_text("\n".join(f"{name}=={version}" for name, version in versions.items()))
  return ["--constraint", str(constraints)]


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
  with_deps, without_deps = _requirements(_HERE / f"{variant}.in")
  with tempfile.TemporaryDirectory() as folder:
    constraints = _constraints(variant, Path(folder), keep=keep)
    entries = _resolve(with_deps, *constraints)
    entries += _resolve(without_deps, "--no-deps", *constraints)
  source = target.with_suffix(".in").name
  header = f"# Made by third_party/locks/lock.py from {source}: CPython 3.11, manylinux x86_64. Do not edit.\n"
  target.write_text(header + _pins(entries))
  _record_sources(variant)
  return difference(before, read_pins(target))


def main() -> None:
  parser = argparse.ArgumentParser(description="Resolve <variant>.in into a hash-locked <variant>.txt.")
  parser.add_argument("variants", nargs="+", help="names or relative paths of .in files, without the ending; cpu first")
  parser.add_argument("--keep", action="store_true", help="keep the locked versions where the requirements allow it")
  arguments = parser.parse_args()
  for variant in arguments.variants:
    changes = lock(variant, keep=arguments.keep)
    print("\n  ".join([f"{variant}: {len(changes)} changes", *changes]), flush=True)


if __name__ == "__main__":
  main()
