"""Writes down the public names of a package, one line each, so that a change of them shows in a diff.

`python tools/checks/public_api.py` renews every `<package>/public_api.txt`; `public_api_test.py` compares them.
"""

import dataclasses
import importlib
import inspect
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache

from cleanroom import ROOT

# The address in the default repr of an object differs from run to run, and the module of a type may be a private one.
_NOISE = re.compile(r" at 0x[0-9a-f]+|\b(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])")


def public_modules() -> dict[str, list[str]]:
  """Returns the public modules of each package, as `[tool.importlinter]` in pyproject.toml names them."""
  settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
  packages: dict[str, list[str]] = {}
  for module in settings["contracts"][0]["public_modules"]:
    packages.setdefault(module.split(".")[1], []).append(module)
  return packages


def describe(package: str) -> str:
  """Returns the golden list of `package`: each public module with the names of its `__all__`, sorted."""
  lines = [f"# The public names of graftax.{package}. Renew with `make public-api`; see STABILITY.md."]
  for name in public_modules()[package]:
    module = importlib.import_module(name)
    lines += ["", name]
    lines += [f"  {line}" for listed in sorted(module.__all__) for line in _entry(listed, getattr(module, listed))]
  return "\n".join(lines) + "\n"


def _entry(name: str, value: object) -> Iterator[str]:
  if inspect.isclass(value):
    bases = [base.__name__ for base in value.__bases__ if base is not object and not _is_private(base)]
    yield f"class {name}({', '.join(bases)})"
    yield from (f"  {member}" for member in _members(value))
  elif callable(value):
    yield f"def {name}{_signature(value)}"
  elif inspect.ismodule(value):
    yield f"module {value.__name__}"
  else:
    yield f"{name}: {type(value).__name__}"


@cache
def _public_classes() -> frozenset[type]:
  modules = [importlib.import_module(name) for names in public_modules().values() for name in names]
  listed = (getattr(module, name) for module in modules for name in module.__all__)
  return frozenset(value for value in listed if inspect.isclass(value))


def _is_private(base: type) -> bool:
  """Returns whether users know a base of a class by that class alone."""
  return base.__module__.startswith("graftax.") and base not in _public_classes()


def _members(cls: type) -> list[str]:
  """Returns the public fields and methods that a graftax class declares itself or has of private bases."""
  fields = {field.name for field in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else set()
  members = []
  for name in sorted(member for member in declared(cls) | fields if not member.startswith("_")):
    value = inspect.getattr_static(cls, name, None)
    function = getattr(value, "__func__", value)
    members.append(f"def {name}{_signature(function)}" if inspect.isfunction(function) else name)
  return members


def declared(cls: type) -> set[str]:
  """Returns the names that a class declares itself or has of private bases, private ones included."""
  return set(vars(cls)).union(*(declared(base) for base in cls.__bases__ if _is_private(base)))


def _signature(function: object) -> str:
  try:
    return _NOISE.sub("", str(inspect.signature(function)))  # type: ignore[arg-type]
  except ValueError:  # a builtin without a text signature
    return "(...)"


def main() -> None:
  for package in sys.argv[1:] or public_modules():
    (ROOT / package / "public_api.txt").write_text(describe(package), encoding="utf-8")


if __name__ == "__main__":
  main()
