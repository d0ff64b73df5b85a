"""The gradient of a module, whose own module is made on first use."""

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import jax

from graftax.xla_call_module import errors

__all__ = ["NUM_STORED_ORDERS", "Gradient", "LiveGradient", "NoGradient", "StoredGradient", "fewer_orders"]

NUM_STORED_ORDERS = 2
"""The number of orders of derivatives of a live Exported that a pickle or a file contains."""

# `Module`, which imports this module.
_Module = TypeVar("_Module")


class Gradient(Generic[_Module]):
  """A function that makes the module of a gradient in its first call, and returns the same one in later calls."""

  def __init__(self) -> None:
    self._lock = threading.Lock()
    self._made: _Module | None = None

  def __call__(self) -> _Module:
    with self._lock:
      if self._made is None:
        self._made = self._make()
      return self._made

  def _make(self) -> _Module:
    raise NotImplementedError

  def __deepcopy__(self, memo: Any) -> "Gradient[_Module]":
    return self


class StoredGradient(Gradient[_Module]):
  """The gradient that a file stores.

  Args:
    read: makes its module of `args`.
  """

  def __init__(self, read: Callable[..., _Module], *args: Any):
    super().__init__()
    self._read, self._args = read, args

  def _make(self) -> _Module:
    return self._read(*self._args)

  def __reduce__(self) -> Any:
    return StoredGradient, (self._read, *self._args)


class LiveGradient(Gradient[_Module]):
  """The gradient of a live Exported, which can derive gradients of any order.

  A pickle has the first two orders. A third raises DerivativeError in the other process, where it would otherwise be
  another derivative than here.

  Args:
    read: makes the module of an Exported that is a derivative of the given order.
    exported: the Exported whose gradient this is.
    order: which derivative `exported` is itself: 0 for a function.
  """

  def __init__(self, read: Callable[[jax.export.Exported, int], _Module], exported: jax.export.Exported, order: int):
    super().__init__()
    self._read, self._exported, self._order = read, exported, order

  def _make(self) -> _Module:
    return self._read(self._derived(), self._order + 1)

  def _derived(self) -> jax.export.Exported:
    try:
      return self._exported.vjp()
    except Exception as error:
      raise errors.DerivativeError(
        f"JAX cannot differentiate the exported function {self._exported.fun_name!r}: {error} Pass gradient='primal' to"
        " differentiate the lifted code instead, which ignores derivatives that the author defined (custom_vjp,"
        " stop_gradient)."
      ) from error

  def __reduce__(self) -> Any:
    if self._order >= NUM_STORED_ORDERS:
      return NoGradient, (fewer_orders("pickled"),)
    try:
      return _Made, (self(),)
    except errors.DerivativeError as error:
      return NoGradient, (str(error),)


class _Made(Gradient[_Module]):
  """A gradient whose module exists."""

  def __init__(self, module: _Module):
    super().__init__()
    self._made = module

  def __reduce__(self) -> Any:
    return _Made, (self._made,)


class NoGradient(Gradient[_Module]):
  """A gradient that could not be stored; `why` says so if it is used."""

  def __init__(self, why: str):
    super().__init__()
    self._why = why

  def _make(self) -> _Module:
    raise errors.DerivativeError(self._why)

  def __reduce__(self) -> Any:
    return NoGradient, (self._why,)


def fewer_orders(done: str) -> str:
  """Returns why a derivative is missing in what was "pickled" or "saved"."""
  return (
    f"a {done} module of a live jax.export.Exported has {NUM_STORED_ORDERS} orders of derivatives. Send"
    " exported.serialize(vjp_order=...) and call Module.from_exported in the other process, or pass"
    " gradient='primal'."
  )
