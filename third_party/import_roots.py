"""Splits one site-packages folder into an import root per distribution.

    python import_roots.py path/to/venv roots --requirements main.in

`roots/<name>/` then contains links to the files of that distribution only, so that adding it to sys.path makes no other
distribution importable. `roots/index.json` lists the roots that each distribution needs: its own and those of all its
requirements. With these, a package runs with exactly the dependencies that it declares.
"""

import argparse
import json
from collections.abc import Iterable, Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path, PurePosixPath

from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.utils import canonicalize_name


def _top_levels(files: Mapping[str, Iterable[PurePosixPath]], folder: PurePosixPath) -> dict[str, list[PurePosixPath]]:
  """Returns, per distribution, the paths under `folder` that only it owns; shared folders are split further."""
  owners: dict[PurePosixPath, set[str]] = {}
  for name, paths in files.items():
    for path in paths:
      if folder in path.parents:
        owners.setdefault(folder / path.relative_to(folder).parts[0], set()).add(name)
  result: dict[str, list[PurePosixPath]] = {}
  for path, names in owners.items():
    if len(names) == 1:
      result.setdefault(next(iter(names)), []).append(path)
      continue
    shared = {name: [p for p in files[name] if path in p.parents] for name in names}
    for name, paths in _top_levels(shared, path).items():
      result.setdefault(name, []).extend(paths)
  return result


def _importable_files(distribution: Distribution) -> list[PurePosixPath]:
  """Returns the installed files inside site-packages, without bytecode and scripts."""
  paths = (PurePosixPath(p) for p in distribution.files or ())
  return [p for p in paths if p.parts[0] != ".." and "__pycache__" not in p.parts]


def link_roots(installed: Mapping[str, Distribution], site_packages: Path, target: Path) -> None:
  """Creates `target/<name>/` for every distribution."""
  files = {name: _importable_files(d) for name, d in installed.items()}
  for name, paths in _top_levels(files, PurePosixPath(".")).items():
    for path in paths:
      link = target / name / path
      link.parent.mkdir(parents=True, exist_ok=True)
      link.symlink_to(site_packages / path)


def requirement_closures(
  installed: Mapping[str, Distribution], requested: Iterable[Requirement] = ()
) -> dict[str, list[str]]:
  """Returns the transitive requirements of each distribution, itself included.

  `requested` names the extras to include, as in `jax[cuda12]`.
  """
  direct: dict[str, set[str]] = {name: set() for name in installed}
  pending = [(name, "") for name in installed]
  pending += [(canonicalize_name(r.name), extra) for r in requested for extra in r.extras]
  seen = set()
  while pending:
    name, extra = pending.pop()
    if (name, extra) in seen or name not in installed:
      continue
    seen.add((name, extra))
    for line in installed[name].requires or ():
      requirement = Requirement(line)
      required = canonicalize_name(requirement.name)
      if required in installed and (requirement.marker is None or requirement.marker.evaluate({"extra": extra})):
        direct[name].add(required)
        pending += [(required, wanted) for wanted in requirement.extras]
  return {name: sorted(_reachable(name, direct)) for name in installed}


def _reachable(name: str, direct: Mapping[str, set[str]]) -> set[str]:
  found, pending = {name}, [name]
  while pending:
    new = direct[pending.pop()] - found
    found |= new
    pending += new
  return found


def installed_distributions(venv: Path) -> tuple[dict[str, Distribution], Path]:
  """Returns the distributions of a virtual environment by canonical name, without graftax's, and its site-packages."""
  (site_packages,) = venv.glob("lib/python3*/site-packages")
  found = {canonicalize_name(d.metadata["Name"]): d for d in distributions(path=[str(site_packages)])}
  return {name: d for name, d in found.items() if not name.startswith("graftax-")}, site_packages.resolve()


def _read_requirements(source: Path) -> list[Requirement]:
  lines = (line.split("#", 1)[0].strip() for line in source.read_text().splitlines())
  return [Requirement(line) for line in lines if line]


def main() -> None:
  parser = argparse.ArgumentParser(description="Split site-packages into an import root per distribution.")
  parser.add_argument("venv", type=Path)
  parser.add_argument("target", type=Path)
  parser.add_argument("--requirements", type=Path, help="the .in file whose extras are included")
  arguments = parser.parse_args()
  installed, site_packages = installed_distributions(arguments.venv)
  requested = _read_requirements(arguments.requirements) if arguments.requirements else []
  link_roots(installed, site_packages, arguments.target)
  index = requirement_closures(installed, requested)
  (arguments.target / "index.json").write_text(json.dumps(index, indent=1, sort_keys=True))


if __name__ == "__main__":
  main()
