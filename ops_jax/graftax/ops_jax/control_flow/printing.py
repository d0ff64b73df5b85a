"""Printing and string formatting: PrintV2, Print, StringFormat.

Text with traced values is formatted while the program runs.
"""

import dataclasses
import functools
import logging
import sys
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from graftax.ops_jax._core.errors import UnsupportedAttrError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Value, is_known, is_symbolic, materialize

__all__ = ["FormattedText", "print_", "print_v2", "string_format"]

# Control characters that have no escape of their own are octal numbers.
_ESCAPES = {code: f"\\{code:03o}" for code in (*range(32), 127)}
_ESCAPES |= str.maketrans({"\n": r"\n", "\r": r"\r", "\t": r"\t", '"': r"\"", "'": r"\'", "\\": r"\\"})
_LOG_LEVELS = {"log(info)": logging.INFO, "log(warning)": logging.WARNING, "log(error)": logging.ERROR}


@dataclasses.dataclass(frozen=True, slots=True)
class FormattedText:
  """A string with traced values, which can only be printed.

  Attributes:
    template: text with placeholders.
    placeholder: the text in `template` that a value replaces.
    inputs: the values, in order.
    summarize: number of elements to show at either end of each dimension; -1 for all.
  """

  template: str
  placeholder: str
  inputs: tuple[Value, ...]
  summarize: int

  def render(self, *traced: np.ndarray) -> str:
    """Returns the text, with `traced` in place of the inputs that are not known."""
    values = iter(traced)
    pieces = self.template.split(self.placeholder)
    text = pieces[0]
    for value, piece in zip(self.inputs, pieces[1:], strict=True):
      text += _format(np.asarray(value if is_known(value) else next(values)), self.summarize) + piece
    return text

  def traced_inputs(self) -> tuple[Value, ...]:
    """The inputs that are not known while tracing."""
    return tuple(value for value in self.inputs if not is_known(value))


@register("StringFormat", ignores=("T",))
def string_format(
  inputs: list[Array], *, template: str = "%s", placeholder: str = "%s", summarize: int = 3
) -> np.ndarray | FormattedText:
  """Returns `template` with each placeholder replaced by a tensor, formatted as in TensorFlow.

  Source op: `tf.raw_ops.StringFormat`.

  Args:
    inputs: one for each placeholder.
    template: the text.
    placeholder: the text that a tensor replaces.
    summarize: number of elements to show at either end of each dimension; -1 for all.

  Returns:
    A known string scalar, or a `FormattedText` if an input is traced; that can only be printed.
  """
  values = tuple(_concrete(materialize(v) if is_symbolic(v) else v) for v in inputs)
  text = FormattedText(template, placeholder, values, summarize)
  return text if text.traced_inputs() else np.array(text.render().encode(errors="surrogateescape"), object)


def _concrete(value: Value) -> Value:
  """Returns an array that JAX has computed as a known one, and other values unchanged."""
  return np.asarray(value) if isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer) else value


@register("PrintV2")
def print_v2(input: np.ndarray | FormattedText, *, output_stream: str = "stderr", end: str = "\n") -> tuple[()]:
  """Prints a text whenever the program computes this node.

  Source op: `tf.raw_ops.PrintV2`.

  Args:
    input: a known string scalar, or the result of `string_format`.
    output_stream: "stderr", "stdout", "log(info)", "log(warning)" or "log(error)".
    end: appended to the text, except in a log.

  Raises:
    UnsupportedAttrError: the stream is a file; a graph may not write to files.

  Differs from TF: under `jax.vmap` the text is printed once for each example.
  """
  if output_stream not in ("stderr", "stdout", *_LOG_LEVELS):
    raise UnsupportedAttrError(
      f"PrintV2: output_stream={output_stream!r} is not supported; expected 'stderr', 'stdout' or {[*_LOG_LEVELS]!r}."
    )
  text = (
    input
    if isinstance(input, FormattedText)
    else FormattedText(np.asarray(input).item().decode(errors="surrogateescape"), "\0", (), -1)
  )
  jax.debug.callback(functools.partial(_emit, text, output_stream, end), *text.traced_inputs())
  return ()


@register("Print", ignores=("T", "U", "first_n"), known_inputs=("data",))
def print_(input: Value, data: list[Value], *, message: str = "", summarize: int = 3) -> Value:
  """Returns the input, and prints `message` and `data` to stderr whenever the program computes this node.

  Differs from TF: printed every time, whatever `first_n` says.
  """
  values = tuple(materialize(v) if is_symbolic(v) else v for v in data)
  text = FormattedText(message + "[\0]" * len(values), "\0", values, summarize)
  jax.debug.callback(functools.partial(_emit, text, "stderr", "\n"), *text.traced_inputs())
  return input


def _emit(text: FormattedText, output_stream: str, end: str, *traced: Any) -> None:
  rendered = text.render(*[np.asarray(t) for t in traced])
  rendered = rendered.encode(errors="surrogateescape").decode(errors="replace")
  if output_stream in _LOG_LEVELS:
    logging.getLogger("graftax.print").log(_LOG_LEVELS[output_stream], "%s", rendered)
  else:
    stream = sys.stdout if output_stream == "stdout" else sys.stderr
    stream.write(rendered + end)
    stream.flush()


def _format(array: np.ndarray, summarize: int) -> str:
  if array.ndim == 0:
    return _format_element(array[()] if array.dtype != object else array.item())
  return _format_dimension(array, summarize, 1)


def _format_dimension(array: np.ndarray, summarize: int, depth: int) -> str:
  size = array.shape[0]
  shown: Sequence[int | None] = range(size)
  if 0 <= summarize and size > 2 * summarize:
    shown = [*range(summarize), None, *range(size - summarize, size)]
  if array.ndim == 1:
    return "[" + " ".join("..." if i is None else _format(array[i : i + 1].reshape(()), summarize) for i in shown) + "]"
  rows = ["..." if i is None else _format_dimension(array[i], summarize, depth + 1) for i in shown]
  return "[" + ("\n" * (array.ndim - 1) + " " * depth).join(rows) + "]"


def _format_element(value: Any) -> str:
  if isinstance(value, bytes):
    return '"' + value.decode(errors="surrogateescape").translate(_ESCAPES) + '"'
  if isinstance(value, (bool, np.bool_)):
    return str(int(value))
  if isinstance(value, (int, np.integer)):
    return str(int(value))
  if isinstance(value, (complex, np.complexfloating)):
    return "?"
  # The number of digits that always suffices, unless fewer digits give the same number.
  number = value if isinstance(value, np.float64) else np.float32(value)
  short, full = (15, 17) if isinstance(value, np.float64) else (6, 9)
  text = f"{float(number):.{short}g}"
  is_exact = number != number or type(number)(text) == number
  return text if is_exact else f"{float(number):.{full}g}"
