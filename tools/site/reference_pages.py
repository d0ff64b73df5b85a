"""The pages of the reference, made from docstrings, signatures and `graftax --help`."""

import ast
import dataclasses
import enum
import functools
import importlib
import inspect
import itertools
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["markdown_of_docstring", "missing_names", "pages"]

ROOT = Path(__file__).resolve().parents[2]
_LONG_VALUE = 100
# A module, a name in it, or a member of that in a golden list of public names.
_PUBLIC = re.compile(r"^(?P<indent> *)(?!module )(?:def |class )?(?P<name>[A-Za-z_][\w.]*)", re.MULTILINE)
_OF_A_MODULE = 2
_SECTION = re.compile(r"^(Args|Attributes|Example|Examples|Raises|Returns|Yields|Differs from TF|Source op):(.*)$")
_ENTRY = re.compile(r"^  (\S[^:]*): (.*)$")
_NO_VALUE = re.compile(r"<[^<>]*(?:<[^<>]*>)?[^<>]*>")
_MODULE_OF_NAME = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Z]|_[A-Z])")


def pages() -> dict[str, str]:
  """Returns the text of each page of the reference, by its name."""
  modules = _public_modules()
  homes: dict[int, str] = {}
  for module in map(importlib.import_module, modules):
    for name in module.__all__:
      homes.setdefault(id(getattr(module, name)), module.__name__)
  made = {f"reference/{name}.md": _module_page(importlib.import_module(name), homes) for name in modules}
  made["reference/command_line.md"] = _command_line_page()
  listed = "\n".join(f"{name}" for name in modules)
  made["reference/index.md"] = f"# Python\n\nThe public modules.\n\n```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n"
  return made


def missing_names(made: Mapping[str, str]) -> list[str]:
  """Returns the names of the golden lists of public names, and their members, that no page of the reference has.

  Args:
    made: the text of each page, by its name.
  """
  missing: list[str] = []
  for golden in sorted(ROOT.glob("*/public_api.txt")):
    module, owner, text = "", "", ""
    for entry in _PUBLIC.finditer(golden.read_text(encoding="utf-8")):
      indent, name = len(entry["indent"]), entry["name"]
      if not indent:
        module, text = name, made.get(f"reference/{name}.md", "")
      elif indent == _OF_A_MODULE:
        owner = name
        if f"{module}.{name}" not in text and f"`{name}`: see" not in text:
          missing.append(f"{module}.{name}")
      elif not getattr(getattr(importlib.import_module(module), owner), "__module__", "graftax").startswith("graftax"):
        continue  # a class of JAX
      elif f"`{owner}`: see" not in text and f"{module}.{owner}.{name}" not in text and f"`{name}`" not in text:
        missing.append(f"{module}.{owner}.{name}")
  return missing


def _public_modules() -> list[str]:
  settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
  (arrows,) = (c for c in settings["tool"]["importlinter"]["contracts"] if c["id"] == "arrows")
  return [name for name in arrows["public_modules"] if getattr(importlib.import_module(name), "__all__", None)]


def _module_page(module: ModuleType, homes: dict[int, str]) -> str:
  """Returns the page of a module.

  Args:
    module: a public module.
    homes: the module that describes an object, by its `id`; a name that others export too is described once.
  """
  parts = [f"# {module.__name__}", _markdown(module)]
  for name in sorted(module.__all__):
    value = getattr(module, name)
    home = homes[id(value)]
    if home == module.__name__ or isinstance(value, (int, str, tuple)):
      parts.append(_described(module.__name__, name, value))
    else:
      parts.append(f"`{name}`: see [{home}]({home}.md).")
  return "\n\n".join(part for part in parts if part) + "\n"


def _described(module: str, name: str, value: object) -> str:
  """Returns the description of a public name, as a directive."""
  path = f"{module}.{name}"
  if inspect.ismodule(value):
    return f"`{path}`: {_first_line(value)}"
  if inspect.isclass(value):
    kind = "py:exception" if issubclass(value, BaseException) else "py:class"
    hidden = issubclass(value, (BaseException, enum.Enum))
    signature = "" if hidden else _signature(value)
    body = [_markdown(value) if value.__doc__ else "", _undescribed(value), *_members(path, value)]
    return _directive(kind, path + signature, "\n\n".join(filter(None, body)), fence=5)
  if callable(value):
    return _directive("py:function", path + _signature(value), _markdown(value), fence=5)
  text, shown = _comment_on(importlib.import_module(module), name), repr(value)
  is_short = isinstance(value, (bool, int, float, str, tuple)) and len(shown) < _LONG_VALUE
  return _directive(
    "py:data", path, "\n\n".join([*([f"Value: `{shown}`."] if is_short else []), _escaped(text)]), fence=5
  )


def _undescribed(cls: type[Any]) -> str:
  """Returns a list of the members of an enumeration, or of the fields of a dataclass that its docstring leaves out."""
  if issubclass(cls, enum.Enum):
    return "**Members** " + ", ".join(f"`{name}`" for name in cls.__members__)
  if not dataclasses.is_dataclass(cls):
    return ""
  docstring = inspect.getdoc(cls) or ""
  fields = [field for field in dataclasses.fields(cls) if not field.name.startswith("_")]
  left = [field for field in fields if not re.search(rf"^  {field.name}\b", docstring, re.MULTILINE)]
  if not left:
    return ""
  heading = "**Attributes**" if len(left) == len(fields) else "**Further attributes**"
  types = {
    field.name: field.type if isinstance(field.type, str) else inspect.formatannotation(field.type) for field in left
  }
  return "\n".join([heading, "", *(f"- `{name}`: `{_plain_names(text)}`" for name, text in types.items())])


def _comment_on(module: ModuleType, name: str) -> str:
  """Returns what is said about a constant where it is assigned: the string after it, or the comment before it."""
  source = inspect.getsource(module)
  tree = ast.parse(source)
  imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
  for node in imports:
    if any(alias.name == name for alias in node.names):
      return _comment_on(importlib.import_module("." * node.level + (node.module or ""), module.__package__), name)
  for position, node in enumerate(tree.body):
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    if any(isinstance(target, ast.Name) and target.id == name for target in targets):
      following = tree.body[position + 1] if position + 1 < len(tree.body) else None
      if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
        return str(following.value.value)
      lines = source.splitlines()[: node.lineno - 1]
      comment = list(itertools.takewhile(lambda line: line.startswith("# "), reversed(lines)))
      return " ".join(line.removeprefix("# ") for line in reversed(comment))
  return ""


def _members(path: str, cls: type[Any]) -> Iterator[str]:
  """Yields descriptions of the public methods and properties that a class of ours defines, or inherits from one."""
  for name in sorted({name for base in cls.__mro__ for name in vars(base)}):
    owner = next((base for base in cls.__mro__ if name in vars(base)), None)
    if name.startswith("_") or owner is None or not owner.__module__.startswith("graftax."):
      continue
    value = inspect.getattr_static(cls, name)
    if isinstance(value, (property, functools.cached_property)):
      yield _directive("py:property", f"{path}.{name}", _markdown(value), fence=4)
    elif isinstance(value, (classmethod, staticmethod)) or inspect.isfunction(value):
      kind = {classmethod: "py:method", staticmethod: "py:method"}.get(type(value), "py:method")
      function = getattr(cls, name)
      option = {classmethod: ":classmethod:\n", staticmethod: ":staticmethod:\n"}.get(type(value), "")
      signature = _signature(function, is_method=inspect.isfunction(value))
      yield _directive(kind, f"{path}.{name}{signature}", option + "\n" + _markdown(function), fence=4)


def _directive(kind: str, head: str, body: str, *, fence: int) -> str:
  ticks = "`" * fence
  return f"{ticks}{{{kind}}} {head}\n{body}\n{ticks}"


def _signature(value: Callable[..., Any], *, is_method: bool = False) -> str:
  try:
    signature = inspect.signature(value)
  except (TypeError, ValueError):
    return "(...)"
  parameters = list(signature.parameters.values())[1 if is_method else 0 :]
  text = str(signature.replace(parameters=parameters))
  return _NO_VALUE.sub("...", _plain_names(text))


def _plain_names(text: str) -> str:
  """Returns a signature with classes by their last names and without quotes of annotations."""
  text = _MODULE_OF_NAME.sub("", text)
  return re.sub(r"(: |-> |\[|, )'([A-Za-z_][\w.\[\], |]*)'", r"\1\2", text)


def _first_line(value: object) -> str:
  return (inspect.getdoc(value) or "").split("\n", 1)[0]


def _markdown(value: object) -> str:
  return markdown_of_docstring(inspect.getdoc(value) or "")


def markdown_of_docstring(text: str) -> str:
  """Returns a docstring in Google's form as Markdown."""
  parts: list[str] = []
  heading, lines = "", list[str]()
  for line in [*text.splitlines(), "Example:"]:
    section = _SECTION.match(line)
    if section is None:
      lines.append(line)
      continue
    parts.append(_section(heading, lines))
    heading, lines = section[1], [section[2].strip()] if section[2].strip() else []
  return "\n\n".join(filter(None, parts))


def _section(heading: str, lines: list[str]) -> str:
  body = "\n".join(lines).strip("\n")
  if not body:
    return ""
  if not heading:
    return _with_examples(body)
  if heading.startswith("Example"):
    return f"**Example**\n\n{_with_examples(inspect.cleandoc(body))}"
  if heading in ("Args", "Attributes", "Raises"):
    return f"**{heading}**\n\n{_entries(body)}"
  return f"**{heading}** {_escaped(inspect.cleandoc(body))}"


def _entries(body: str) -> str:
  items: list[str] = []
  for line in body.splitlines():
    entry = _ENTRY.match(line)
    if entry is not None:
      items.append(f"- `{entry[1]}`: {_escaped(entry[2])}")
    elif items:
      items[-1] += "\n" + _escaped("  " + line.strip()) if line.strip() else ""
    elif line.strip():
      items.append(f"- {_escaped(line.strip())}")
  return "\n".join(items)


def _with_examples(text: str) -> str:
  """Returns a text with its doctests, and indented lines, as blocks of code."""
  parts = []
  for paragraph in re.split(r"\n\s*\n", text):
    if ">>>" in paragraph or re.match(r" {2,}\S", paragraph):
      start = paragraph.find(">>>") if not paragraph.startswith(" ") else 0
      before, code = paragraph[:start].strip(), inspect.cleandoc(paragraph[start:])
      language = "pycon" if ">>>" in code else "none"
      parts += [_escaped(before)] if before else []
      parts.append(f"```{language}\n{code}\n```")
    else:
      parts.append(_escaped(paragraph))
  return "\n\n".join(parts)


def _escaped(text: str) -> str:
  """Returns prose whose angle brackets, stars and brackets are not Markdown, except within backticks."""
  pieces = re.split(r"(`[^`]*`)", text)
  return "".join(p if i % 2 else re.sub(r"([<*\[\]_])", r"\\\1", p) for i, p in enumerate(pieces))


def _command_line_page() -> str:
  from typer.main import get_command
  from typer.testing import CliRunner

  from graftax.tools.cli import app

  os.environ["COLUMNS"] = "100"
  parts = ["# Command line"]
  for name in ["", *getattr(get_command(app), "commands", {})]:
    command = f"graftax {name}".strip()
    output = CliRunner().invoke(app, [*filter(None, [name]), "--help"], env={"COLUMNS": "100"}).output
    lines = "\n".join(line.rstrip() for line in output.strip("\n").splitlines())
    parts.append(f"## {command}\n\n```\n{lines}\n```" if name else f"```\n{lines}\n```")
  return "\n\n".join(parts) + "\n"
