"""Asks uv whether the wheels resolve to binaries, with every extra, on the systems and Pythons that are promised.

    python tools/packaging/resolve_wheels.py                                # everything: one to two minutes
    python tools/packaging/resolve_wheels.py --system windows --python 3.14 convert

uv resolves for other systems as pip does there; nothing is built or installed, and only metadata is downloaded. All
packages are resolved together with all their extras: the part of the result that one of them needs is a resolution for
that one alone. If this fails, each extra is tried by itself, and the table names those without a resolution and what uv
says.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import uv
from build_wheel import build
from bump_version import project_files
from cleanroom import ROOT

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
SYSTEMS = {
  # glibc 2.28 is that of Debian 10, Ubuntu 20.04 (2.31) and RHEL 8.
  "linux": "x86_64-manylinux_2_28",
  "macos": "aarch64-apple-darwin",
  "windows": "x86_64-pc-windows-msvc",
}
"""What uv calls the systems that wheels are installed on."""

_OLDEST_MACOS = "14.0"


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
  """Returns the resolved versions by name and "", or none and what uv says.

  Args:
    wheels: folder with the wheels of the tree.
    system: a key of `SYSTEMS`.
    python: minor version, such as `"3.13"`.
    wanted: requirements, resolved together.
  """
  command = [uv.find_uv_bin(), "pip", "compile", "-", "--quiet", "--no-header", "--no-annotate"]
  command += ["--only-binary", ":all:", "--python-platform", SYSTEMS[system], "--python-version", python]
  command += ["--find-links", wheels]
  run = subprocess.run(
    command,
    input="\n".join(wanted),
    check=False,
    capture_output=True,
    text=True,
    env={**os.environ, "MACOSX_DEPLOYMENT_TARGET": _OLDEST_MACOS},
  )
  if run.returncode:
    return {}, " ".join(run.stderr.split()) or "uv failed"
  pins = (line.partition("==") for line in run.stdout.splitlines())
  return {name: version.split()[0] for name, _, version in pins if version}, ""


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
  parser = argparse.ArgumentParser(description="Ask uv whether the wheels resolve to binaries on each system.")
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
