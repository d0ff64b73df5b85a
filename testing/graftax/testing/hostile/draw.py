"""Decisions of a case. Each has its own random numbers, so one can be dropped without changing the others."""

import zlib
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from graftax.graphdef_ir.schema import Message
from graftax.testing.hostile.case import CaseId

__all__ = ["INT32", "Draw"]

_T = TypeVar("_T")

INT32 = {"low": -(1 << 31), "high": (1 << 31) - 1}
"""The range of an int32, for `Draw.size`."""

# Sizes, counts and positions at which readers go wrong: signs, powers of two, and what overflows when it is multiplied.
_SIZES = (
  *(-1, 0, -2, 3, 1 << 16, (1 << 20) + 1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40, 1 << 53),
  *((1 << 62) + 1, (1 << 63) - 1, -(1 << 31), -(1 << 63)),
)
_NAMES = (
  "",
  *"a / .. ../x x/../../y ^x x:0 :1 x:-1 x:99999999999999999999".split(),
  *("\0", "a\0b", "é\u202e", "a" * 70_000, "/etc/hostname", "%s%n", "{0.__class__}", "__class__", "NaN", "-1", "x\ny"),
  *("CON", "~", "$HOME", "*"),
)


class Draw:
  """Source of the decisions of one case.

  A decision that is dropped takes its plainest value: that of an honest file.

  Attributes:
    decisions: what was decided so far, as text.
  """

  def __init__(self, case_id: CaseId) -> None:
    self._key = (zlib.crc32(f"{case_id.kind}/{case_id.template}".encode()), case_id.seed)
    self._dropped = frozenset(case_id.dropped)
    self.decisions: list[str] = []

  def lie(self, honest: _T, *lies: _T, probability: float = 0.8) -> _T:
    """Returns `honest`, or more often one of the lies."""
    return self._decide(
      honest, lambda rng: lies[int(rng.integers(len(lies)))] if rng.random() < probability else honest
    )

  def pick(self, *options: _T) -> _T:
    """Returns one of the options; the first is the plainest."""
    return self._decide(options[0], lambda rng: options[int(rng.integers(len(options)))])

  def integer(self, low: int, high: int) -> int:
    """Returns an integer between `low`, which is the plainest, and `high`."""
    return self._decide(low, lambda rng: int(rng.integers(low, high, endpoint=True)))

  def chance(self, probability: float) -> bool:
    """Returns True with the given probability."""
    return self._decide(False, lambda rng: bool(rng.random() < probability))

  def size(self, honest: int, *more: int, low: int = -(1 << 63), high: int = (1 << 63) - 1) -> int:
    """Returns a size that is false: negative, far too large, or near the honest one."""
    lies = [s for s in (*_SIZES, honest - 1, honest + 1, 2 * honest, *more) if s != honest and low <= s <= high]
    return self.lie(honest, *lies)

  def name(self, honest: str, *more: str) -> str:
    """Returns a name that is false: empty, of a parent folder, with zeros in it, very long."""
    return self.lie(honest, *more, *_NAMES)

  def data(self, num_bytes: int) -> bytes:
    """Returns random bytes; zeros if the decision is dropped."""
    return self._decide(bytes(num_bytes), lambda rng: rng.bytes(num_bytes))

  def _decide(self, plain: _T, draw: Callable[[np.random.Generator], _T]) -> _T:
    position = len(self.decisions)
    # One generator for each decision: those after it stay as they are if it is dropped.
    value: _T = plain if position in self._dropped else draw(np.random.default_rng((*self._key, position)))
    text = type(value).__name__ if isinstance(value, Message) else repr(value)
    self.decisions.append(text if len(text) < 60 else f"{text[:57]}...")
    return value
