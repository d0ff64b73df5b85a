"""Applying one step of an optimizer to variables: to all elements, or to the rows of a sparse gradient."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from graftax.ops_jax._core.context import Context, ResourceHandle
from graftax.ops_jax._core.values import Array
from graftax.ops_jax.array.gather import positions_or_end
from graftax.ops_jax.optimizers.steps import Step

__all__ = ["apply_step", "apply_step_to_rows"]


def apply_step(ctx: Context, handles: tuple[ResourceHandle, ...], step: Step, *numbers: Array) -> None:
  """Replaces the values of `handles` by `step(*values, *numbers)`, which returns as many."""
  values = step(*[jnp.asarray(ctx.read(handle)) for handle in handles], *numbers)
  for handle, value in zip(handles, values, strict=True):
    ctx.write(handle, value)


def apply_step_to_rows(
  ctx: Context, handles: tuple[ResourceHandle, ...], step: Callable[..., tuple[Array, ...]], grad: Array, indices: Array
) -> None:
  """Applies `step(*rows, grad_row)` to the rows `indices` of the variables.

  A row that `indices` holds twice is updated twice, in order.

  Args:
    ctx: holds the variables.
    handles: variables of shape `[num_rows, ...]`.
    step: `(*values, gradient) -> new values`, elementwise.
    grad: `[num_indices, ...]`.
    indices: `[num_indices]`.

  Raises:
    InvalidInputError: a known index is out of range.

  Differs from TF: traced indices out of range are skipped instead of raising an error.
  """
  variables = tuple(jnp.asarray(ctx.read(handle)) for handle in handles)
  grad, indices = jnp.asarray(grad), positions_or_end(ctx.node_name, indices, variables[0].shape[0])

  def all_at_once(variables: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    rows = step(*[v[indices] for v in variables], grad)
    return tuple(v.at[indices].set(row, mode="drop") for v, row in zip(variables, rows, strict=True))

  def one_by_one(variables: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    def body(variables: tuple[jax.Array, ...], item: tuple[Array, Array]) -> tuple[tuple[jax.Array, ...], None]:
      index, row_grad = item
      rows = step(*[v[index] for v in variables], row_grad)
      return tuple(v.at[index].set(row, mode="drop") for v, row in zip(variables, rows, strict=True)), None

    return lax.scan(body, variables, (indices, grad))[0]

  if indices.shape[0] <= 1:
    values = all_at_once(variables)
  else:
    ordered = jnp.sort(indices)
    values = lax.cond(jnp.any(ordered[1:] == ordered[:-1]), one_by_one, all_at_once, variables)
  for handle, value in zip(handles, values, strict=True):
    ctx.write(handle, value)
