"""Imports a whole package and runs its smoke test with only the dependencies that the package declares.

    python -I -S smoke_runner.py ops_jax ops_jax/smoke.py --absent tensorflow --path ROOT --path ROOT

Needs nothing but the standard library, since it runs where the rest of this folder cannot be imported.
"""

import argparse
import importlib
import pkgutil
import runpy
import sys
from importlib.machinery import PathFinder


def hide(*libraries: str) -> None:
  """Makes libraries impossible to import."""

  class Finder(PathFinder):
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
      return None if fullname.partition(".")[0] in libraries else super().find_spec(fullname, path, target)

  sys.meta_path[:] = [Finder if finder is PathFinder else finder for finder in sys.meta_path]


def import_all(package_name: str) -> int:
  """Imports a package with all its modules, checks the names in `__all__`, and returns the number of modules.

  Raises:
    AttributeError: `__all__` lists a name that the module does not have.
  """
  package = importlib.import_module(package_name)
  found = (m.name for m in pkgutil.walk_packages(package.__path__, package_name + "."))
  names = [package_name, *(name for name in found if not name.endswith(".__main__"))]
  for name in names:
    module = importlib.import_module(name)
    missing = [public for public in getattr(module, "__all__", ()) if not hasattr(module, public)]
    if missing:
      raise AttributeError(f"{name}: __all__ lists {', '.join(missing)}, which the module does not have")
  return len(names)


def main() -> None:
  parser = argparse.ArgumentParser(description="Import a package and run its smoke test.")
  parser.add_argument("package", help="folder name, such as ops_jax")
  parser.add_argument("smoke", help="path of the smoke test, a script")
  parser.add_argument("--path", action="append", default=[], help="an entry of sys.path before all others")
  parser.add_argument("--absent", action="append", default=[], help="a library that must not be importable")
  arguments = parser.parse_args()
  sys.path[:0] = arguments.path
  hide(*arguments.absent)
  count = import_all("graftax." + arguments.package)
  runpy.run_path(arguments.smoke, run_name="__main__")
  print(f"{arguments.package}: {count} modules imported, smoke test passed")


if __name__ == "__main__":
  main()
