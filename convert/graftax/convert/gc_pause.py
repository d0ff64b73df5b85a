"""Pauses Python's cyclic garbage collector."""

import contextlib
import gc
import threading
from collections.abc import Iterator

__all__ = ["without_garbage_collection"]

# A full collection has to be worth its time: after so many pauses, for so many objects that they made old, if these are
# one of so many of all, as for Python's own full collections.
_MANY_PAUSES, _MANY_OBJECTS, _SHARE = 8, 100_000, 4
# Python 3.12 keeps some from being collected by itself.
_FEW_FROZEN = 1_000


@contextlib.contextmanager
def without_garbage_collection() -> Iterator[None]:
  """Disables cyclic garbage collection until this block, and every such block in other threads, has ended.

  Parsing, planning and tracing allocate many objects and keep all of them. Each full collection would walk all objects
  of JAX and TensorFlow and free nothing. Measured, that took two thirds of the time to plan 2,000 nodes.

  The objects count as old ones afterwards. If they were young, the next collection would walk all of them, which takes
  two thirds of the time to trace 10,000 nodes. Python does not count them for its own full collections, so after many
  pauses there is one.
  """
  _pauses.begin()
  try:
    yield
  finally:
    _pauses.end()


class _Pauses:
  """Counts the pauses, and what they have made old since the last full collection."""

  def __init__(self) -> None:
    self._lock = threading.Lock()
    self._depth = 0
    self._was_enabled = False
    self._num_pauses = self._num_made_old = self._num_collections = 0
    self._enough_made_old = _MANY_OBJECTS

  def begin(self) -> None:
    with self._lock:
      if not self._depth:
        self._was_enabled = gc.isenabled()
        gc.disable()
      self._depth += 1

  def end(self) -> None:
    with self._lock:
      self._depth -= 1
      if self._depth or not self._was_enabled:
        return
      collects = self._makes_old()
      gc.enable()
    if collects:
      gc.collect()

  def _makes_old(self) -> bool:
    """Moves all objects to the oldest generation, or returns that they should be collected.

    Objects that the program keeps from being collected would lose that, so then all stay as they are.
    """
    num_collections = gc.get_stats()[2]["collections"]
    if num_collections != self._num_collections:
      self._num_collections, self._num_pauses, self._num_made_old = num_collections, 0, 0
    if gc.get_freeze_count() > _FEW_FROZEN:
      return False
    self._num_pauses += 1
    self._num_made_old += gc.get_count()[0]
    if self._num_pauses >= _MANY_PAUSES and self._num_made_old >= self._enough_made_old:
      # Counting millions of objects takes longer than many a pause, so the count is kept until it can matter again.
      self._enough_made_old = max(_MANY_OBJECTS, len(gc.get_objects()) // _SHARE)
      if self._num_made_old >= self._enough_made_old:
        return True
    gc.freeze()
    gc.unfreeze()
    return False


_pauses = _Pauses()
