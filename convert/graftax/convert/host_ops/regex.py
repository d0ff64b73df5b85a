"""Regular expressions with RE2's meaning: RegexReplace, RegexFullMatch, RegexSplitWithOffsets."""

import functools
import re
from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np

from graftax.convert.host_ops.registry import host_op
from graftax.convert.host_ops.values import map_strings, scalar_string, string_array
from graftax.graphdef_ir import Budget, optional_library
from graftax.ops_jax import NO_BUDGET, InvalidInputError

__all__ = [
  "regex_full_match",
  "regex_replace",
  "regex_split_with_offsets",
  "static_regex_full_match",
  "static_regex_replace",
]

_REWRITE = re.compile(rb"\\([0-9\\])|\\|[^\\]+", re.DOTALL)

# The size of replacements is compared with the limit each time that so many bytes were added.
_CHECKED_BYTES = 1 << 14

# A match takes as long as so many bytes of text, or longer.
_MATCH_BYTES = 32


class _Match(Protocol):
  """What is used of a match of google-re2, which ships no type information."""

  def __getitem__(self, group: int, /) -> bytes | None: ...
  def start(self) -> int: ...
  def end(self) -> int: ...
  def span(self) -> tuple[int, int]: ...


class _Pattern(Protocol):
  """What is used of a compiled expression of google-re2."""

  @property
  def pattern(self) -> bytes: ...
  @property
  def groups(self) -> int: ...
  def search(self, text: bytes, position: int, /) -> _Match | None: ...
  def fullmatch(self, text: bytes, /) -> _Match | None: ...
  def finditer(self, text: bytes, /) -> Iterator[_Match]: ...


@host_op("StaticRegexReplace")
def static_regex_replace(
  input_: np.ndarray, *, pattern: bytes, rewrite: bytes, replace_global: bool = True, budget: Budget = NO_BUDGET
) -> np.ndarray:
  r"""Returns the strings with matches of a pattern replaced. In the rewrite, `\1` is the first group.

  Raises:
    InvalidInputError: the pattern or the rewrite is malformed.
    LimitExceededError: the results are too long.
  """
  compiled = _compile(pattern)
  template = _template(rewrite, compiled)

  def spend(num_bytes: int) -> None:
    budget.spend_text_bytes(num_bytes, "RegexReplace")

  return map_strings(lambda item: _replace(compiled, template, item, replace_global, spend), input_)


@host_op("RegexReplace")
def regex_replace(
  input_: np.ndarray,
  pattern: np.ndarray,
  rewrite: np.ndarray,
  *,
  replace_global: bool = True,
  budget: Budget = NO_BUDGET,
) -> np.ndarray:
  """Returns the strings with matches of a pattern replaced; see `static_regex_replace`."""
  return static_regex_replace(
    input_,
    pattern=scalar_string(pattern, "RegexReplace: pattern"),
    rewrite=scalar_string(rewrite, "RegexReplace: rewrite"),
    replace_global=replace_global,
    budget=budget,
  )


@host_op("StaticRegexFullMatch")
def static_regex_full_match(input_: np.ndarray, *, pattern: bytes) -> np.ndarray:
  """Returns whether the pattern matches each whole string."""
  compiled = _compile(pattern)
  return map_strings(lambda item: compiled.fullmatch(item) is not None, input_, np.bool_)


@host_op("RegexFullMatch")
def regex_full_match(input_: np.ndarray, pattern: np.ndarray) -> np.ndarray:
  """Returns whether the pattern matches each whole string."""
  return static_regex_full_match(input_, pattern=scalar_string(pattern, "RegexFullMatch: pattern"))


@host_op("RegexSplitWithOffsets")
def regex_split_with_offsets(
  input_: np.ndarray, delim_regex_pattern: np.ndarray, keep_delim_regex_pattern: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
  """Returns the parts of each string between delimiters: parts, starts and ends in bytes, row splits.

  Delimiters that the second pattern matches as a whole are parts, too. As in TensorFlow Text, a string ends at its
  first zero byte.

  Raises:
    InvalidInputError: a pattern is malformed, or a delimiter is empty.
  """
  delimiter = _compile(scalar_string(delim_regex_pattern, "RegexSplitWithOffsets: delim_regex_pattern"))
  kept = scalar_string(keep_delim_regex_pattern, "RegexSplitWithOffsets: keep_delim_regex_pattern")
  keep = _compile(kept) if kept else None
  rows = [_parts(item.partition(b"\0")[0], delimiter, keep) for item in input_.tolist()]
  parts = [part for row in rows for part in row]
  starts, ends = (np.array([part[i] for part in parts], np.int64) for i in (1, 2))
  return string_array(part[0] for part in parts), starts, ends, np.cumsum([0, *map(len, rows)]).astype(np.int64)


def _parts(item: bytes, delimiter: _Pattern, keep: _Pattern | None) -> list[tuple[bytes, int, int]]:
  parts: list[tuple[bytes, int, int]] = []
  start = 0
  for match in delimiter.finditer(item):
    if match.start() == match.end():
      raise InvalidInputError(f"RegexSplitWithOffsets: {delimiter.pattern!r} matches nothing in {item!r}.")
    if start < match.start():
      parts.append((item[start : match.start()], start, match.start()))
    found = item[match.start() : match.end()]
    if keep is not None and keep.fullmatch(found):
      parts.append((found, *match.span()))
    start = match.end()
  return [*parts, (item[start:], start, len(item))] if start < len(item) else parts


@functools.lru_cache(maxsize=256)
def _compile(pattern: bytes) -> _Pattern:
  with optional_library("the model's host part, which has regular expressions,", "graftax-convert[text]"):
    import re2
  options = re2.Options()
  options.log_errors = False
  try:
    compiled: _Pattern = re2.compile(pattern, options)
  except re2.error as e:
    raise InvalidInputError(f"regular expression {pattern!r}: {e}; expected RE2's syntax.") from e
  return compiled


def _template(rewrite: bytes, compiled: _Pattern) -> list[bytes | int]:
  """Returns a rewrite as literal bytes and numbers of groups."""
  parts: list[bytes | int] = []
  for found in _REWRITE.finditer(rewrite):
    escaped = found[1]
    if found[0] == b"\\" or (escaped is not None and escaped != b"\\" and int(escaped) > compiled.groups):
      raise InvalidInputError(
        f"rewrite {rewrite!r}: a backslash must be followed by a backslash or the number of one of the "
        f"{compiled.groups} groups of the pattern."
      )
    parts.append(found[0] if escaped is None else b"\\" if escaped == b"\\" else int(escaped))
  return parts


def _replace(
  compiled: _Pattern, template: list[bytes | int], item: bytes, everywhere: bool, spend: Callable[[int], None]
) -> bytes:
  """Returns `item` after RE2's GlobalReplace or Replace, which treat empty matches otherwise than Python's `sub`.

  `spend` is called with the size of replacements before they are joined.
  """
  parts: list[bytes] = []
  size = 0
  position, last_end = 0, -1
  while position <= len(item):
    match = compiled.search(item, position)
    if match is None:
      break
    start, end = match.span()
    parts.append(item[position:start])
    if start == end == last_end:
      # An empty match right after another match does not count; RE2 copies one character.
      step = _character_length(item, start)
      parts.append(item[start : start + step])
      position = start + max(step, 1)
      continue
    replacement = [part if isinstance(part, bytes) else match[part] or b"" for part in template]
    size += _MATCH_BYTES + sum(map(len, replacement))
    if size > _CHECKED_BYTES:
      spend(size)
      size = 0
    parts += replacement
    position = last_end = end
    if not everywhere:
      break
  return b"".join(parts) + item[position:] if parts else item


def _character_length(item: bytes, position: int) -> int:
  """Returns the length in bytes of the UTF-8 character at a position; 1 if it is malformed, 0 at the end."""
  for length in range(1, min(4, len(item) - position) + 1):
    try:
      # RE2 copies surrogates as characters.
      item[position : position + length].decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
      continue
    return length
  return min(1, len(item) - position)
