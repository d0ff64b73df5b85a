"""Consoles for results and remarks, and the progress display."""

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
  from rich.console import Console
  from rich.progress import Progress

__all__ = ["progress", "remarks", "results"]

# Tables are made for reading; a pipe has no width, so it gets one in which names of layers fit.
_PIPE_WIDTH = 160


def results() -> "Console":
  """Returns the console on standard output."""
  return _console(stderr=False)


def remarks() -> "Console":
  """Returns the console on standard error, for progress, notes and errors, so that results can be piped."""
  return _console(stderr=True)


def progress() -> "Progress":
  """Returns a progress display on standard error. It vanishes at its end and is not shown in files or pipes."""
  from rich.console import Console
  from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

  console = remarks()
  if not (is_shown := console.is_terminal):
    # Older versions of rich end a display that is not shown with an empty line.
    console = Console(quiet=True)
  columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
  return Progress(*columns, console=console, transient=True, disable=not is_shown)


def _console(*, stderr: bool) -> "Console":
  from rich.console import Console

  stream = sys.stderr if stderr else sys.stdout
  return Console(
    file=stream, width=None if stream.isatty() or "COLUMNS" in os.environ else _PIPE_WIDTH, highlight=False
  )
