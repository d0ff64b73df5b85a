"""Lays out a module of Python as ruff does."""

import ast
import importlib.util
import io
import re
import subprocess
import sys
import tokenize

__all__ = ["laid_out"]

_WIDTH = 88


def laid_out(imports: str, definitions: list[ast.stmt], docstring: str) -> str:
  """Returns the text of a module: with ruff if it is installed, and else one statement in each line."""
  texts = [_plain(ast.unparse(ast.fix_missing_locations(definition))) for definition in definitions]
  body = "\n\n\n".join(texts)
  text = f'"""{docstring}"""\n\n{imports}\n\n\n{_double_quoted(body)}\n'
  if importlib.util.find_spec("ruff") is None:
    return text
  # -I keeps the working directory, which is often a model's folder, off the search path.
  command = [sys.executable, "-I", "-m", "ruff", "format", "--isolated", "--line-length", str(_WIDTH), "-"]
  done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
  return done.stdout if done.returncode == 0 else text


def _plain(text: str) -> str:
  """Returns statements without what `ast.unparse` adds: parentheses around results, and empty lines."""
  lines = [_bare_return(line) for line in text.split("\n")]
  return "\n".join(line for i, line in enumerate(lines) if line or not lines[i - 1].endswith(":"))


def _bare_return(line: str) -> str:
  match = re.fullmatch(r"(\s*return )\((.*)\)", line)
  if match is None:
    return line
  found = ast.parse(match[2] if match[2].strip() else "()", mode="eval").body if _is_expression(match[2]) else None
  return match[1] + match[2] if isinstance(found, ast.Tuple) and len(found.elts) > 1 else line


def _is_expression(text: str) -> bool:
  try:
    ast.parse(text, mode="eval")
  except SyntaxError:
    return False
  return True


def _double_quoted(text: str) -> str:
  """Returns Python with double quotes."""
  lines = text.splitlines(keepends=True)
  starts = [0]
  for line in lines:
    starts.append(starts[-1] + len(line))
  out = list(text)
  for token in tokenize.generate_tokens(io.StringIO(text).readline):
    if token.type == tokenize.STRING and token.string.startswith("'") and '"' not in token.string:
      out[starts[token.start[0] - 1] + token.start[1]] = '"'
      out[starts[token.end[0] - 1] + token.end[1] - 1] = '"'
  return "".join(out)
