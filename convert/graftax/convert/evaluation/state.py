"""The state of one call: values of variables by name, and the variables that the call has replaced."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from graftax.convert.errors import ParameterError
from graftax.convert.shown_names import shown
from graftax.ops_jax import Int64Pair, ResourceHandle, Value, as_int64_pair, to_jax_exactly

__all__ = ["State"]


class State:
  """Values of the resources that a call can reach.

  Values given as numpy arrays become JAX arrays when first read: a parameter is never *known* while tracing. If
  `jax_enable_x64` is off, generator states and integers beyond 32 bits become `Int64Pair`.

  Derivatives with respect to a variable are those of all its reads, also after an assignment, and do not pass through
  the assigned value, as in TensorFlow; `differentiates_assignments` is the option of that name.
  """

  def __init__(
    self,
    values: Mapping[str, Value],
    generators: frozenset[str] = frozenset(),
    *,
    differentiates_assignments: bool = False,
  ):
    self._given = values
    self._generators = generators
    self._differentiates_assignments = differentiates_assignments
    self._current: dict[str, Value] = {}
    self._written: set[str] = set()

  def read(self, handle: ResourceHandle) -> Value:
    """Returns the current value of a resource.

    Raises:
      ParameterError: the resource has no value.
    """
    if handle.name not in self._current:
      if handle.name not in self._given:
        raise ParameterError(
          f"Variable {handle.name!r} is read, but has no value; the parameters are {shown(sorted(self._given))}."
        )
      self._current[handle.name] = self._as_jax(handle.name, self._given[handle.name])
    return self._current[handle.name]

  def write(self, handle: ResourceHandle, value: Value) -> None:
    """Replaces the value of a resource."""
    is_narrow_state = handle.name in self._generators and not isinstance(value, Int64Pair)
    if is_narrow_state and not jax.config.jax_enable_x64:
      value = as_int64_pair(value, np.int64)
    new = self._as_jax(handle.name, value)
    before = self._current.get(handle.name, self._given.get(handle.name))
    is_traced = isinstance(new, jax.core.Tracer) or isinstance(before, jax.core.Tracer)
    if is_traced and isinstance(new, jax.Array) and not self._differentiates_assignments:
      new = _assigned(None if before is None else self.read(handle), new)
    self._current[handle.name] = new
    self._written.add(handle.name)

  def _as_jax(self, name: str, value: Value) -> Value:
    if isinstance(value, Int64Pair | jax.Array):
      return value
    if name in self._generators and not jax.config.jax_enable_x64:
      return as_int64_pair(value)
    return to_jax_exactly(value) if isinstance(value, np.ndarray) else jnp.asarray(value)

  def branch(self, values: Mapping[ResourceHandle, Value]) -> "State":
    """Returns the state inside a branch or loop body: `values` are its operands, and other values are closed over.

    Writes inside the branch do not change this state; control flow returns the written values as results.
    """
    current = {name: self.read(ResourceHandle(name)) for name in self._current}
    given = {**self._given, **current, **{handle.name: value for handle, value in values.items()}}
    return State(given, self._generators, differentiates_assignments=self._differentiates_assignments)

  def results(self) -> dict[str, Value]:
    """Returns all values after the call: written ones are new, the others are those that were passed in."""
    return {**self._given, **{name: self._current[name] for name in self._written}}


def _assigned(before: Value | None, after: jax.Array) -> jax.Array:
  """Returns `after`, with the derivatives of `before` if both have one shape and dtype, and with none otherwise."""
  if not jnp.issubdtype(after.dtype, jnp.inexact):
    return after
  if isinstance(before, jax.Array) and (before.shape, before.dtype) == (after.shape, after.dtype):
    return _with_derivatives_of(before, after)
  return jax.lax.stop_gradient(after)


@jax.custom_jvp
def _with_derivatives_of(before: jax.Array, after: jax.Array) -> jax.Array:
  return after


@_with_derivatives_of.defjvp
def _(primals: tuple[jax.Array, jax.Array], tangents: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
  return primals[1], tangents[0]
