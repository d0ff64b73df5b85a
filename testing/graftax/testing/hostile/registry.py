"""Templates by kind: the functions of the modules of `templates`, and `Attempt`, which they return."""

import dataclasses
import functools
import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeVar

from graftax.testing.hostile.draw import Draw

__all__ = [
  "KINDS",
  "Attempt",
  "Box",
  "Expectation",
  "Template",
  "attempted",
  "family",
  "find_template",
  "register_functions",
  "templates",
]

KINDS = tuple(
  (
    "saved_model graph_file tf1_control_flow outside_files checkpoint checkpoint_v1 chunked keras_archive h5 "
    "safetensors orbax archive stablehlo_text stablehlo_bytes exported rewriting host_ops tokenizers tracing source "
    "changing_files"
  ).split()
)

# What has to come of reading a file:
#   "refused": a typed error.
#   "loaded": no error.
#   "typed": either.
Expectation = Literal["refused", "loaded", "typed"]


@dataclasses.dataclass(frozen=True, slots=True)
class Box:
  """The folders of one case.

  Attributes:
    model: where the template writes; nothing else may be read.
    outside: a folder beside it, with a file, a FIFO and a file for each format, none of which may be opened.
    secret: the bytes of the file `secret.txt` in `outside`; they may not be in a result.
  """

  model: Path
  outside: Path
  secret: bytes

  def outside_names(self) -> tuple[str, ...]:
    """Returns names of files that no model may open: as absolute paths, and relative to the model's folder."""
    target = str(self.outside / "secret.txt")
    relative = f"../{self.outside.name}/secret.txt"
    return target, relative, f"./{relative}", f"x/../{relative}", f"../{relative}", f"file://{target}", "/dev/zero"


@dataclasses.dataclass(frozen=True, slots=True)
class Attempt:
  """What is done with a file that a template wrote.

  Attributes:
    read: reads the file and uses it, as a user would; returns what came of it.
    expectation: what has to come of it.
    check: raises AssertionError if a result is wrong.
    graph: a file with a graph that TensorFlow can judge.
    memory_mib: what an honest reader needs beyond the usual limit.
  """

  read: Callable[[], Any]
  expectation: Expectation = "typed"
  check: Callable[[Any], None] | None = None
  graph: Path | None = None
  memory_mib: int = 0


Template = Callable[[Draw, Box], Attempt]
_Function = TypeVar("_Function", bound=Callable[..., Any])

_TEMPLATES: dict[str, dict[str, Template]] = {kind: {} for kind in KINDS}
_SETTINGS: dict[Callable[..., Any], dict[str, Any]] = {}


def attempted(expectation: Expectation = "typed", **settings: Any) -> Callable[[_Function], _Function]:
  """Gives a function of a module of templates other arguments for the module's `attempt_of`."""

  def mark(function: _Function) -> _Function:
    _SETTINGS[function] = {"expectation": expectation, **settings}
    return function

  return mark


def register_functions(kind: str, module: ModuleType) -> None:
  """Registers the public functions of a module as templates of a kind, under their names.

  A function of `draw` and `box` is a template. Any other one changes or fills an honest file: the module's
  `attempt_of(function, draw, box)` calls it and writes the file. Functions in `__all__` are for other modules.
  """
  others = {"attempt_of", *getattr(module, "__all__", ())}
  for name, function in vars(module).items():
    if inspect.isfunction(function) and function.__module__ == module.__name__:
      is_whole = list(inspect.signature(function).parameters) == ["draw", "box"]
      is_other = name.startswith("_") or name in others
      if function in _SETTINGS and (is_whole or is_other):
        raise ValueError(f"{module.__name__}.{name} is `attempted`, but no argument of `attempt_of`.")
      if is_other:
        continue
      if is_whole:
        _add(kind, name, function)
      else:
        _add(kind, name, functools.partial(module.attempt_of, function, **_SETTINGS.get(function, {})))


def family(kind: str, rows: Mapping[str, Any], make: Callable[[Any, Draw, Box], Attempt]) -> None:
  """Registers a template for each row of a table.

  Args:
    kind: their kind.
    rows: template name -> what the template is given.
    make: writes the file of a row.
  """
  for name, row in rows.items():
    _add(kind, name, lambda draw, box, row=row: make(row, draw, box))  # type: ignore[misc]


def _add(kind: str, name: str, function: Template) -> None:
  if name in _TEMPLATES[kind]:
    raise ValueError(f"two templates are named {kind}/{name}")
  _TEMPLATES[kind][name] = function


def templates(kinds: Iterable[str] = KINDS) -> list[tuple[str, str]]:
  """Returns `(kind, name)` of every template of these kinds.

  Raises:
    ValueError: there is no such kind.
  """
  found = []
  for kind in kinds:
    if kind not in KINDS:
      raise ValueError(f"no kind {kind!r}; there are {', '.join(KINDS)}")
    _read(kind)
    found += [(kind, name) for name in _TEMPLATES[kind]]
  return found


def find_template(kind: str, name: str) -> Template:
  """Returns a template.

  Raises:
    ValueError: there is no such template.
  """
  if (kind, name) not in templates([kind]):
    raise ValueError(f"no template {kind}/{name}; see `python -m graftax.testing.hostile --list`")
  return _TEMPLATES[kind][name]


@functools.cache
def _read(kind: str) -> None:
  register_functions(kind, importlib.import_module(f"graftax.testing.hostile.templates.{kind}"))
