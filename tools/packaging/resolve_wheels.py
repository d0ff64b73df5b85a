"""Asks pip whether the wheels resolve to binaries, with every extra, on the systems and Pythons that are promised.

    python tools/packaging/resolve_wheels.py                                # everything: about two minutes
    python tools/packaging/resolve_wheels.py --system windows --python 3.14 convert

pip resolves and reports; nothing is built or installed, and only metadata is downloaded. All packages are resolved
together with all their extras: the part of the result that one of them needs is a resolution for that one alone. If
this fails, each extra is tried by itself, and the table names those without a resolution and what pip says.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from build_wheel import build
from bump_version import project_files
from cleanroom import ROOT

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
_PIP = ROOT / "tools/packaging/pip_elsewhere.py"


@dataclass(frozen=True, slots=True)
class System:
  """A system that wheels are installed on.

  Attributes:
    platforms: tags of the wheels that it installs. pip derives the older ones for macOS, but not for Linux.
    markers: its values of environment markers (PEP 508).
  """

  platforms: tuple[str, ...]
  markers: dict[str, str]


def _markers(os_name: str, platform: str, system: str, machine: str) -> dict[str, str]:
  return {"os_name": os_name, "sys_platform": platform, "platform_system": system, "platform_machine": machine}


SYSTEMS = {
  # glibc 2.28 is that of Debian 10, Ubuntu 20.04 (2.31) and RHEL 8.
  "linux": System(
    (*(f"manylinux_2_{minor}_x86_64" for minor in range(28, 4, -1)), "manylinux2014_x86_64", "manylinux2010_x86_64"),
    _markers("posix", "linux", "Linux", "x86_64"),
  ),
  "macos": System(("macosx_14_0_arm64",), _markers("posix", "darwin", "Darwin", "arm64")),
  "windows": System(("win_amd64",), _markers("nt", "win32", "Windows", "AMD64")),
}


def requirements(packages: list[str] | None = None) -> list[str]:
  """Returns a requirement for each wheel without extras and with each extra, at the version of the tree.

  Args:
    packages: names of package folders; by default all, with the wheel `graftax`.
  """
  found = []
  for path in project_files(ROOT):
    if packages is None or path.parent.name in packages:
      project = tomllib.loads(path.read_text())["project"]
      name, version = project["name"], project["version"]
      found.append(f"{name}=={version}")
      found += [f"{name}[{extra}]=={version}" for extra in project.get("optional-dependencies", {})]
  return found


def build_all(folder: Path) -> Path:
  """Builds every wheel in a folder and returns it."""
  for path in project_files(ROOT):
    build(path.parent, folder)
  return folder


def resolve(wheels: Path, system: str, python: str, wanted: list[str]) -> tuple[dict[str, str], str]:
  """Returns the resolved versions by name and "", or none and what pip says.

  Args:
    wheels: folder with the wheels of the tree.
    system: a key of `SYSTEMS`.
    python: minor version, such as `"3.13"`.
    wanted: requirements, resolved together.
  """
  target = SYSTEMS[system]
  markers = target.markers | {"python_version": python, "python_full_version": f"{python}.5"}
  with tempfile.TemporaryDirectory() as folder:
    report = Path(folder, "report.json")
    command = [
      sys.executable,
      _PIP,
      json.dumps(markers),
      "install",
      "--quiet",
      "--disable-pip-version-check",
      "--dry-run",
    ]
    command += ["--ignore-installed", "--only-binary", ":all:", "--python-version", python, "--implementation", "cp"]
    command += [f"--platform={tag}" for tag in target.platforms]
    command += ["--target", Path(folder, "target"), "--find-links", wheels, "--report", report, *wanted]
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    if run.returncode:
      return {}, _reason(run.stderr)
    entries = json.loads(report.read_text())["install"]
  return {e["metadata"]["name"].lower().replace("_", "-"): e["metadata"]["version"] for e in entries}, ""


def _reason(stderr: str) -> str:
  errors = [line for line in stderr.splitlines() if line.startswith("ERROR")]
  return (errors or stderr.splitlines() or ["pip failed"])[-1]


def failures(wheels: Path, system: str, python: str, wanted: list[str]) -> Iterator[str]:
  """Yields what does not resolve, with the reason."""
  together, reason = resolve(wheels, system, python, wanted)
  if together:
    return
  alone = [(requirement, resolve(wheels, system, python, [requirement])[1]) for requirement in wanted]
  if not any(why for _, why in alone):
    yield f"all together: {reason}"
  yield from (f"{requirement}: {why}" for requirement, why in alone if why)


def main() -> None:
  parser = argparse.ArgumentParser(description="Ask pip whether the wheels resolve to binaries on each system.")
  parser.add_argument("packages", nargs="*", help="package folders (default: all, and the wheel graftax)")
  parser.add_argument("--system", action="append", choices=SYSTEMS, help="default: all")
  parser.add_argument("--python", action="append", help="minor version, such as 3.13; default: all that are promised")
  arguments = parser.parse_args()
  wanted = requirements(arguments.packages or None)
  failed = False
  with tempfile.TemporaryDirectory() as folder:
    wheels = build_all(Path(folder))
    for python in arguments.python or PYTHONS:
      for system in arguments.system or SYSTEMS:
        found = list(failures(wheels, system, python, wanted))
        failed |= bool(found)
        summary = f"{len(wanted) - len(found)} of {len(wanted)} resolve"
        print("\n    ".join([f"{python} {system}: {summary}", *found]), flush=True)
  sys.exit(failed)


if __name__ == "__main__":
  main()
