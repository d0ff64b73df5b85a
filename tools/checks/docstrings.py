"""Computes which share of the public functions have documented parameters, and which share have an example.

`python tools/checks/docstrings.py` prints the functions without, and renews `tools/checks/docstrings.toml`;
`docstrings_test.py` fails if a share of a package is lower than is written there.
"""

import importlib
import inspect
import math
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from public_api import declared, public_modules

GOLDEN = Path(__file__).with_suffix(".toml")

_HEAD = (
  "# In percent: the share of public functions and methods of two or more parameters whose docstring has Args,\n"
  "# and the share of public functions whose docstring has an example. Renew with tools/checks/docstrings.py.\n"
)
_SECTION = re.compile(r"^Args:\n((?:  .*\n|\n)*)", re.MULTILINE)
# Several parameters may share a description: `x, y: ...`. Lines that go on from the one before have deeper indents.
_ENTRY = re.compile(r"^  (\*{0,2}\w+(?:, \*{0,2}\w+)*): ", re.MULTILINE)


class Function(NamedTuple):
  """A public function or method of a package, as its signature and its docstring say."""

  package: str
  address: str
  is_method: bool
  parameters: tuple[str, ...]
  doc: str

  @property
  def documented(self) -> tuple[str, ...]:
    """The parameters that the section Args names."""
    section = _SECTION.search(self.doc + "\n")
    entries = _ENTRY.findall(section[1]) if section else []
    return tuple(name for entry in entries for name in re.findall(r"\w+", entry))


class Shares(NamedTuple):
  """Shares of the functions of a package, in percent."""

  args: float
  examples: float


def public_functions() -> list[Function]:
  """Returns the functions of our public modules and the public methods of their classes, each once."""
  found: dict[object, Function] = {}
  for package, names in public_modules().items():
    for module in map(importlib.import_module, names):
      for name in sorted(module.__all__):
        value = getattr(module, name)
        # Classes and functions of other libraries that a package lists have docstrings of their own; aliases of types
        # have none.
        is_made = inspect.isclass(value) or inspect.isfunction(inspect.unwrap(value))
        if is_made and value.__module__.startswith("graftax."):
          for inner, function in _functions(value):
            address = ".".join([module.__name__, name, *inner])
            found.setdefault(function, _described(package, address, bool(inner), function))
  return list(found.values())


def _functions(value: Any) -> Iterator[tuple[Sequence[str], Any]]:
  if not inspect.isclass(value):
    yield (), value
    return
  for name in sorted(declared(value)):
    member = getattr(value, name, None)
    if not name.startswith("_") and (inspect.isfunction(member) or inspect.ismethod(member)):
      yield (name,), member


def _described(package: str, address: str, is_method: bool, function: Any) -> Function:
  parameters = tuple(inspect.signature(function).parameters)
  names = parameters[1:] if is_method and parameters[:1] == ("self",) else parameters
  return Function(package, address, is_method, names, inspect.getdoc(function) or "")


def without_args(functions: Sequence[Function]) -> list[Function]:
  """Returns the functions and methods of two or more parameters whose docstring does not describe any of them."""
  return [function for function in functions if len(function.parameters) > 1 and not function.documented]


def without_example(functions: Sequence[Function]) -> list[Function]:
  """Returns the functions, without methods, whose docstring has no example."""
  return [function for function in functions if not function.is_method and ">>> " not in function.doc]


def shares(functions: Sequence[Function]) -> Shares:
  """Returns both shares, rounded down to a tenth.

  Example:
    >>> shares([Function("convert", "graftax.convert.both", False, ("x", "y"), "Args:\\n  x, y: numbers.\\n"),
    ...         Function("convert", "graftax.convert.one", False, ("x",), ">>> one(1)")])
    Shares(args=100.0, examples=50.0)
  """
  return Shares(
    _share_without(len(without_args(functions)), sum(len(function.parameters) > 1 for function in functions)),
    _share_without(len(without_example(functions)), sum(not function.is_method for function in functions)),
  )


def _share_without(num_missing: int, total: int) -> float:
  return math.floor(1000 * (total - num_missing) / total) / 10 if total else 100.0


def by_package(functions: Sequence[Function]) -> dict[str, Shares]:
  """Returns the shares of each package."""
  packages = sorted({function.package for function in functions})
  return {name: shares([function for function in functions if function.package == name]) for name in packages}


def golden() -> dict[str, Shares]:
  """Returns the lowest shares that are allowed."""
  return {name: Shares(**row) for name, row in tomllib.loads(GOLDEN.read_text(encoding="utf-8")).items()}


def main() -> None:
  functions = public_functions()
  for title, missing in {"Args": without_args(functions), "example": without_example(functions)}.items():
    print(f"without {title}:", *(f"  {function.address}{function.parameters}" for function in missing), sep="\n")
  print("all:", shares(functions))
  rows = by_package(functions).items()
  GOLDEN.write_text(
    _HEAD + "".join(f"{name} = {{ args = {here.args}, examples = {here.examples} }}\n" for name, here in rows),
    encoding="utf-8",
  )


if __name__ == "__main__":
  main()
