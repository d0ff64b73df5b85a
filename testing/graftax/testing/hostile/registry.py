"""Templates by kind: `template` registers one, and `Attempt` is what it returns."""

import dataclasses
import importlib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

from graftax.testing.hostile.draw import Draw

__all__ = [
  "KINDS",
  "Attempt",
  "Box",
  "Expectation",
  "Template",
  "family",
  "find_template",
  "template",
  "template_of",
  "templates",
]

# Any in this module: what reading a file returns.

KINDS = (
  "saved_model",
  "graph_file",
  "tf1_control_flow",
  "outside_files",
  "checkpoint",
  "checkpoint_v1",
  "chunked",
  "keras_archive",
  "h5",
  "safetensors",
  "orbax",
  "archive",
  "stablehlo_text",
  "stablehlo_bytes",
  "exported",
  "rewriting",
  "host_ops",
  "tokenizers",
  "tracing",
  "source",
  "changing_files",
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
_Change = TypeVar("_Change", bound=Callable[..., Any])

_TEMPLATES: dict[str, dict[str, Template]] = {kind: {} for kind in KINDS}


def template(kind: str) -> Callable[[Template], Template]:
  """Registers a function as a template of a kind, under its own name."""

  def register(function: Template) -> Template:
    return _add(kind, function.__name__.strip("_"), function)

  return register


def template_of(kind: str, make: Callable[[_Change, Draw, Box], Attempt]) -> Callable[[_Change], _Change]:
  """Registers functions that change or fill an honest file as templates of a kind, under their own names.

  Args:
    kind: their kind.
    make: calls the function and writes the file.
  """

  def register(change: _Change) -> _Change:
    _add(kind, change.__name__.strip("_"), lambda draw, box: make(change, draw, box))
    return change

  return register


def family(kind: str, rows: Mapping[str, Any], make: Callable[[Any, Draw, Box], Attempt]) -> None:
  """Registers a template for each row of a table.

  Args:
    kind: their kind.
    rows: template name -> what the template is given.
    make: writes the file of a row.
  """
  for name, row in rows.items():
    _add(kind, name, lambda draw, box, row=row: make(row, draw, box))  # type: ignore[misc]


def _add(kind: str, name: str, function: Template) -> Template:
  if name in _TEMPLATES[kind]:
    raise ValueError(f"two templates are named {kind}/{name}")
  _TEMPLATES[kind][name] = function
  return function


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


@cache
def _read(kind: str) -> None:
  importlib.import_module(f"graftax.testing.hostile.templates.{kind}")
