"""Resolves `<variant>.in` beside this file into a hash-locked `<variant>.txt`.

    python3.11 third_party/locks/lock.py cpu cuda12

pip only resolves and reports: nothing is installed, and accelerator wheels are not downloaded. The lock is for the
Python and the platform that run this script, CPython 3.11 on manylinux x86_64. cpu.txt constrains the versions of the
other variants, so that all variants have the same JAX stack.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

_HERE = Path(__file__).resolve().parent
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


def _constraints(variant: str, folder: Path) -> list[str]:
  """Returns pip options that restrict an accelerator variant to the versions of the cpu lock."""
  cpu_lock = _HERE / "cpu.txt"
  if variant == "cpu" or not cpu_lock.exists():
    return []
  versions = [line.split(" --hash", 1)[0] for line in cpu_lock.read_text().splitlines() if "==" in line]
  constraints = folder / "constraints.txt"
  constraints.write_text("\n".join(versions))
  return ["--constraint", str(constraints)]


def lock(variant: str) -> Path:
  """Writes `<variant>.txt` and returns its path."""
  with_deps, without_deps = _requirements(_HERE / f"{variant}.in")
  with tempfile.TemporaryDirectory() as folder:
    entries = _resolve(with_deps, *_constraints(variant, Path(folder)))
  entries += _resolve(without_deps, "--no-deps")
  target = _HERE / f"{variant}.txt"
  header = f"# Made by third_party/locks/lock.py from {variant}.in: CPython 3.11, manylinux x86_64. Do not edit.\n"
  target.write_text(header + _pins(entries))
  return target


def main() -> None:
  parser = argparse.ArgumentParser(description="Resolve <variant>.in into a hash-locked <variant>.txt.")
  parser.add_argument("variants", nargs="+", help="names of .in files, without the ending; cpu first")
  for variant in parser.parse_args().variants:
    print(lock(variant).relative_to(_HERE.parent.parent))


if __name__ == "__main__":
  main()
