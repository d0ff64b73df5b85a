"""Checks the inputs of the `Module` constructors; the errors name the method that accepts a rejected input."""

import os
from typing import Any

import jax

from graftax.xla_call_module import bytecode, errors

__all__ = ["as_bytes", "as_text", "check_text", "described", "reading_hint"]

# Number of characters of a value that a message shows.
_NUM_SHOWN = 40


def described(value: object) -> str:
  """Describes a value for an error message: its type, and the beginning of text or bytes."""
  if value is None:
    return "None"
  shown = f" {value[:_NUM_SHOWN]!r}" if isinstance(value, (str, bytes, bytearray)) else ""
  kind = type(value).__name__
  return f"{'an' if kind[0] in 'AEIOUaeiou' else 'a'} {kind}{shown}"


def reading_hint(value: object) -> str:
  """Returns advice if the name of a file was passed instead of its contents, else an empty string."""
  if isinstance(value, (str, os.PathLike)):
    return " Read a file with pathlib.Path(name).read_bytes() first."
  return ""


def as_bytes(data: Any, method: str) -> bytes:
  """Returns the data as bytes.

  Raises:
    ArgumentError: they are not bytes; the message names the method of `Module` that accepts them.
  """
  if isinstance(data, (bytes, bytearray, memoryview)):
    return bytes(data)
  hint = reading_hint(data) + (" Use Module.from_text for MLIR text." if isinstance(data, str) else "")
  if isinstance(data, jax.export.Exported):
    hint = " Use Module.from_exported."
  raise errors.ArgumentError(f"Module.{method}: got {described(data)}; expected bytes.{hint}")


def check_text(text: Any) -> None:
  """Checks that `text` may be MLIR text.

  Raises:
    ArgumentError: it is not a str.
    DecodeError: it is empty, or looks like the name of a file.
  """
  if not isinstance(text, str):
    hint = " Use Module.from_bytes for bytes." if isinstance(text, (bytes, bytearray, memoryview)) else ""
    raise errors.ArgumentError(f"Module.from_text: got {described(text)}; expected MLIR text.{hint}")
  if not text.strip():
    raise errors.DecodeError("the text is empty; expected an MLIR module with a function named 'main'.")
  if "\n" not in text and text.strip().endswith((".mlir", ".txt", ".bc", ".pb")):
    raise errors.DecodeError(
      f"{text!r} is the name of a file, not MLIR text; pass pathlib.Path(name).read_text(), or read_bytes() to "
      "Module.from_bytes."
    )


def as_text(data: bytes) -> str:
  """Returns bytes that are not MLIR bytecode as text.

  Raises:
    DecodeError: they are not UTF-8.
  """
  try:
    return data.decode()
  except UnicodeDecodeError:
    # A serialized Exported contains the bytecode of its module.
    is_wrapped = bytecode.MAGIC in data
    hint = "they contain MLIR bytecode inside another format; use" if is_wrapped else "use"
    raise errors.DecodeError(
      f"{len(data)} bytes starting with {data[:8]!r} are neither MLIR bytecode nor MLIR text in UTF-8; {hint} "
      f"Module.from_exported for a serialized Exported{'' if is_wrapped else ', Module.from_hlo for HLO protos'}."
    ) from None
