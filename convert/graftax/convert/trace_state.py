"""Tells whether code runs outside of all JAX transformations."""

import threading
from typing import Any

from jax.extend.core import get_opaque_trace_state

__all__ = ["is_outside_of_transformations", "trace_state"]


def is_outside_of_transformations() -> bool:
  """Returns whether JAX would run an operation on arrays at once: no `jit`, `grad` or `vmap` is tracing."""
  return bool(trace_state() == _outermost_state())


def trace_state() -> Any:
  """Returns what JAX is tracing, as an object that can be compared and printed."""
  return get_opaque_trace_state(convention="nnx")


_outermost: list[Any] = []


def _outermost_state() -> Any:
  """Returns the state of JAX outside of all transformations, which is the state of a new thread."""
  if not _outermost:
    thread = threading.Thread(target=lambda: _outermost.append(trace_state()))
    thread.start()
    thread.join()
  return _outermost[0]
