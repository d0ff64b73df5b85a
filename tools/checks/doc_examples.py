"""Runs the examples of READMEs and of the pages in docs/, and compares or renews what they print.

    .venv/bin/python tools/checks/doc_examples.py README.md docs/guides/*.md    # renews the outputs in these files

In a page, a block of `python` is code that runs. Blocks of one page share their names. What a block prints follows it
as "This prints:" and a block without a language. In a block of `console`, each line that begins with `$ graftax` is a
command; its output follows. Blocks of `py` and `bash` are not run.
"""

import contextlib
import io
import linecache
import os
import re
import sys
from pathlib import Path

from typer.testing import CliRunner

__all__ = ["needs_tensorflow", "pages", "rewritten"]

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(
  r"^```python\n(?P<code>.*?)^```$(?:\n\nThis prints:\n\n```\n(?P<printed>.*?)^```$)?"
  r"|^```console\n(?P<session>.*?)^```$",
  re.MULTILINE | re.DOTALL,
)
_COMMAND = re.compile(r"^\$ (graftax .*)$", re.MULTILINE)
_TENSORFLOW = re.compile(r"import tensorflow|from tensorflow|import tf2jax|jax2tf import|import jax2tf|import keras")
# The width of the pages' code blocks.
_COLUMNS = "100"


def pages() -> list[Path]:
  """Returns the READMEs and the pages with examples that run, as paths from the root of the tree."""
  found = [ROOT / "README.md", *ROOT.glob("*/README.md"), *(ROOT / "docs").rglob("*.md")]
  return sorted(path.relative_to(ROOT) for path in found if _BLOCK.search(path.read_text(encoding="utf-8")))


def needs_tensorflow(page: Path) -> bool:
  """Returns whether the examples of a page import TensorFlow."""
  code = [block["code"] or "" for block in _BLOCK.finditer((ROOT / page).read_text(encoding="utf-8"))]
  return any(_TENSORFLOW.search(text) for text in code)


def rewritten(page: Path) -> str:
  """Runs the examples of a page, from the root of the tree, and returns its text with what they print now."""
  text = (ROOT / page).read_text(encoding="utf-8")
  namespace: dict[str, object] = {"__name__": "__main__"}

  def run(block: re.Match[str]) -> str:
    if block["session"] is not None:
      commands = _COMMAND.findall(block["session"])
      if not commands:
        return block[0]
      return "```console\n" + "\n".join(_run_command(command) for command in commands) + "```"
    # Errors name lines of the page.
    code = "\n" * text.count("\n", 0, block.start("code")) + block["code"]
    # AutoGraph reads the source of functions; without this it would read the page.
    linecache.cache[str(page)] = len(code), None, code.splitlines(keepends=True), str(page)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
      exec(compile(code, str(page), "exec"), namespace)
    output = _without_trailing_spaces(printed.getvalue())
    return f"```python\n{block['code']}```" + (f"\n\nThis prints:\n\n```\n{output}```" if output else "")

  with contextlib.chdir(ROOT):
    return _BLOCK.sub(run, text)


def _run_command(command: str) -> str:
  from graftax.tools.cli import app

  result = CliRunner().invoke(app, command.split()[1:], env={"COLUMNS": _COLUMNS})
  return f"$ {command}\n" + _without_trailing_spaces(result.output).lstrip("\n")


def _without_trailing_spaces(text: str) -> str:
  lines = [line.rstrip() for line in text.splitlines()]
  return "\n".join(lines).rstrip("\n") + "\n" if any(lines) else ""


def main() -> None:
  os.environ.setdefault("JAX_PLATFORMS", "cpu")
  for argument in sys.argv[1:]:
    page = Path(argument).resolve()
    text = rewritten(page.relative_to(ROOT))
    changed = text != page.read_text(encoding="utf-8")
    page.write_text(text, encoding="utf-8")
    print(f"{argument}: {'renewed' if changed else 'current'}")


if __name__ == "__main__":
  main()
