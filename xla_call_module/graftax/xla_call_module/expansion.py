"""How large the attributes, types and locations of a module are when they are written out.

In text and in bytecode one attribute can refer to another twice, which refers to a third twice: 30 of them are a
billion when MLIR prints them, as it does for each error, or when XLA copies them. Reading them takes no time, so they
are counted first.
"""

import re
from collections.abc import Iterator, Sequence

from graftax.xla_call_module import bytecode, errors

__all__ = ["check_bytecode", "check_text"]

# A JAX module with source locations reaches about 20 times its size, because each location is written with its frames.
_RATIO = 128
_FREE_BYTES = 1 << 24

# A string without an end is one token to the end of its line. If it were not, each quote in it would begin another one.
_STRING = r'"(?:[^"\\\n]++|\\.)*+"?'
_NAME = r"[#!](?:\d+|[A-Za-z$._-][\w$.-]*)"
_BEFORE_VALUE = r"(?:\s|//[^\n]*\n)*+=(?!=)"
# A comment may be between a name and its "="; that is not looked at here, since names in comments are not known yet.
_MAY_DEFINE = re.compile(rf"{_NAME}\s*(?:=(?!=)|//)")
# In the order in which they are tried: what hides other tokens, definitions, uses. The location of an operation is
# hidden, too: MLIR has it once, however many operations are there.
_ALIASES = re.compile(
  rf"(?P<hidden>{_STRING}|//[^\n]*|(?<![\w$.-])loc\(\s*{_NAME}\s*\))"
  rf"|(?P<defined>{_NAME}){_BEFORE_VALUE}|(?P<used>{_NAME})"
)
_TOKENS = re.compile(
  rf"@?{_STRING}|//[^\n]*|{_NAME}|->|[<>=]=|[\[\](){{}}<>]|::|[:,=]|(?:[^\s\[\](){{}}<>\":,=#!-]|-(?!>))+|\S"
)
_OPENING, _CLOSING = frozenset("[({<"), frozenset("])}>")
_CONTINUES = frozenset({":", "->", "::"})


def check_text(text: str) -> None:
  """Checks MLIR text before it is parsed.

  Raises:
    DecodeError: aliases of attributes, types or locations stand for far more text than there is.
  """
  if _MAY_DEFINE.search(text) is None:
    return
  limit = _RATIO * len(text) + _FREE_BYTES
  sizes: dict[str, int] = {}
  total, at = 0, 0
  while (found := _ALIASES.search(text, at)) is not None:
    at = found.end()
    if (name := found["defined"]) is not None:
      at, size = _value(text, at, sizes)
      sizes[name] = size
      total += size
    elif (name := found["used"]) is not None:
      total += sizes.get(name, 0)
    if total > limit:
      raise _too_large(f"its aliases, {name!r} among them, stand for", len(text), limit)


def _value(text: str, start: int, sizes: dict[str, int]) -> tuple[int, int]:
  """Returns where the value of an alias ends, and its size with all aliases in it written out."""
  depth, at, size, may_end = 0, start, 0, False
  for token in _TOKENS.finditer(text, start):
    word = token[0]
    if word.startswith("//"):
      continue
    is_bracket = word in _OPENING
    if depth == 0 and may_end and not is_bracket and word not in _CONTINUES:
      break
    depth += is_bracket - (word in _CLOSING)
    may_end = word not in _CONTINUES
    size += len(word) + sizes.get(word, 0)
    at = token.end()
  return at, size


# What the binary encodings hold: "a" an attribute, "t" a type, "n" a number, "s" a list of numbers, "A" and "T" lists
# of attributes and types, "P" a list of pairs of attributes. Encodings that refer to nothing are left out.
_ENCODINGS = {
  ("builtin", True): {
    0: "A", 1: "P", 3: "nt", 5: "aA", 6: "t", 8: "t", 9: "t", 10: "aa", 12: "A", 13: "Aa", 14: "aa", 16: "t", 17: "t",
    18: "t", 19: "t", 20: "taa", 21: "a",
  },
  ("builtin", False): {
    2: "TT", 9: "t", 10: "sta", 11: "asta", 13: "st", 14: "ast", 15: "T", 16: "t", 17: "at", 18: "t",
    19: "st", 20: "st",
  },
  ("vhlo", True): {1: "A", 6: "P", 8: "t", 9: "t", 15: "t", 17: "t"},
  ("vhlo", False): {1: "t", 8: "TT", 20: "st", 21: "ast", 23: "T", 24: "ntt", 25: "t", 30: "ntt", 41: "st"},
}  # fmt: skip


def check_bytecode(data: bytes) -> None:
  """Checks MLIR bytecode, or a portable artifact, before it is read.

  Raises:
    DecodeError: attributes, types or locations stand for far more bytes than there are, or one contains itself.
  """
  try:
    num_attributes, entries = bytecode.attribute_entries(data)
  except (IndexError, ValueError):
    return  # MLIR says what is wrong
  references = [_references(data, entry, num_attributes, len(entries)) for entry in entries]
  limit = _RATIO * len(data) + _FREE_BYTES
  if _exceeds(limit, [entry.end - entry.start for entry in entries], references):
    raise _too_large("its attributes, which refer to each other, stand for", len(data), limit)


def _references(data: bytes, entry: "bytecode.AttributeEntry", num_attributes: int, num_entries: int) -> Sequence[int]:
  """Returns the positions of the entries to which one refers; none for an entry that MLIR does not read."""
  if not entry.is_binary:
    return ()
  try:
    code, at = bytecode.varint(data, entry.start)
    encoding = _ENCODINGS.get((entry.dialect, entry.is_attribute), {}).get(code)
    if encoding is None:
      return ()
    found = tuple(_read(data, at, entry.end, encoding, num_attributes))
  except IndexError:
    return ()
  return found if all(number < num_entries for number in found) else ()


def _read(data: bytes, at: int, end: int, encoding: str, num_attributes: int) -> Iterator[int]:
  for what in encoding:
    count = 1
    if what in "ATPs":
      count, at = bytecode.varint(data, at)
    count *= 2 if what == "P" else 1
    if count > end - at:  # each number has at least one byte
      raise IndexError
    for _ in range(count):
      if at >= end:
        raise IndexError
      number, at = bytecode.varint(data, at)
      if what in "aAP":
        yield number
      elif what in "tT":
        yield num_attributes + number


def _exceeds(limit: int, own: Sequence[int], references: Sequence[Sequence[int]]) -> bool:
  """Returns whether the sizes of all entries, with all entries in them written out, have a sum above a limit.

  The sizes themselves may have as many digits as there are entries, so that none is computed beyond the limit.

  Raises:
    DecodeError: an entry contains itself.
  """
  sizes = [0] * len(own)  # 0 is unknown, and -1 an entry whose references are being counted
  total = 0
  for first in range(len(own)):
    pending = [first] if not sizes[first] else []
    while pending:
      at = pending[-1]
      if sizes[at] > 0:
        pending.pop()
      elif sizes[at] < 0:
        sizes[at] = min(1 + own[at] + sum(sizes[other] for other in references[at]), limit + 1)
        total += sizes[at]
        if total > limit:
          return True
        pending.pop()
      else:
        sizes[at] = -1
        for other in references[at]:
          if sizes[other] < 0:
            raise errors.DecodeError(f"StableHLO bytes are damaged: attribute or type {other} contains itself.")
          if not sizes[other]:
            pending.append(other)
  return False


def _too_large(what: str, given: int, limit: int) -> errors.DecodeError:
  return errors.DecodeError(
    f"StableHLO module of size {given} is not read: {what} more than {limit} characters, the most that is accepted."
    " Modules that JAX and StableHLO write need a few times their size."
  )
