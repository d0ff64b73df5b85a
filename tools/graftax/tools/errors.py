"""Errors of the `graftax` command, besides those of the packages below."""

import sysconfig
import traceback

import graftax
from graftax.graphdef_ir.errors import GraftaxError

__all__ = [
  "ArrayFileError",
  "CommandError",
  "ExportError",
  "InputOptionError",
  "PythonObjectError",
  "ShapeOptionError",
  "notes_of",
  "place_in_user_code",
]

# How JAX's note begins that says that the traceback, which is not shown, was made shorter.
_ABOUT_TRACEBACK = "---"


def notes_of(error: BaseException) -> list[str]:
  """Returns the notes of an error, such as node and function."""
  return [note for note in getattr(error, "__notes__", ()) if not note.startswith(_ABOUT_TRACEBACK)]


def place_in_user_code(error: BaseException) -> str | None:
  """Returns where code that is neither installed nor part of graftax raised an error; None if none did."""
  installed = {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")}
  for frame in reversed(traceback.extract_tb(error.__traceback__)):
    if not frame.filename.startswith((*installed, *graftax.__path__, "<")):
      return f"raised at {frame.filename}:{frame.lineno} in {frame.name}"
  return None


class CommandError(GraftaxError):
  """A command could not do what it was asked for."""


class ArrayFileError(CommandError, ValueError):
  """A file that should hold an input array does not, or the array does not fit the input."""


class ShapeOptionError(CommandError, ValueError):
  """A shape given on the command line does not fit the signature."""


class InputOptionError(CommandError, ValueError):
  """An `--input` option is malformed, or does not fit the arguments of the function."""


class PythonObjectError(CommandError, LookupError):
  """A Python file or module does not run, or has nothing of the name that was asked for."""


class ExportError(CommandError, ValueError):
  """A signature cannot be written as a jax.export artifact with the shapes or the parameters it has."""
