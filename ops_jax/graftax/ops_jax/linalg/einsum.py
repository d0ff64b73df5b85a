"""Sums of products by subscript equations: Einsum, XlaEinsum."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from graftax.graphdef_ir import Budget
from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.result_sizes import NO_BUDGET, check_known
from graftax.ops_jax._core.values import Array

__all__ = ["einsum", "xla_einsum"]

# As many as NumPy's arrays may have. XLA takes long for more.
_MOST_AXES = 64


@register("Einsum", ignores=("T", "N"))
def einsum(inputs: list[Array], *, equation: str, budget: Budget = NO_BUDGET) -> Array:
  """Computes the sum of products that an equation in Einstein's notation describes.

  Source op: `tf.raw_ops.Einsum`.

  Args:
    inputs: the operands, one per comma-separated term; any numeric dtype.
    equation: for example `"bij,bjk->bik"`. A label that occurs twice in a term takes its diagonal; one that occurs
      twice in the result writes to a diagonal of zeros; `...` denotes leading axes that broadcast.
    budget: is asked for memory.

  Returns:
    Axes as the right side names them, dtype of the inputs.

  Raises:
    InvalidInputError: the equation and the shapes do not fit.
    LimitExceededError: the result needs too much memory.
  """
  operands = [jnp.asarray(x) for x in inputs]
  left, arrow, right = equation.replace(" ", "").partition("->")
  terms = left.split(",")
  if len(terms) != len(operands) or not arrow:
    raise InvalidInputError(f"Einsum: equation {equation!r} does not fit {len(operands)} inputs; expected 'a,b->c'.")
  sizes = _check_sizes(equation, terms, operands)
  output = _labels(right)
  # A label that occurs several times makes a result larger than all operands.
  check_known((sizes.get(label, 1) for label in output), budget, "Einsum", operands[0].dtype.itemsize)
  if len(output) > _MOST_AXES:
    raise InvalidInputError(f"Einsum: the result has {len(output)} axes; expected at most {_MOST_AXES}.")
  distinct = list(dict.fromkeys(output))
  if any("..." in term for term in terms) and "..." not in distinct:
    # TensorFlow accepts an ellipsis that the result lacks only if it covers no axis.
    if any(x.ndim > len(term.replace("...", "")) for x, term in zip(operands, terms, strict=True)):
      raise InvalidInputError(
        f"Einsum: equation {equation!r}: the result has no '...', but shapes {[x.shape for x in operands]} have axes "
        f"for it. Write it on the right side and sum its axes."
      )
    left = left.replace("...", "")
  summed = _einsum(equation, left, distinct, operands)
  return summed if len(distinct) == len(output) else _write_to_diagonals(summed, distinct, output)


@register("XlaEinsum", ignores=("T",))
def xla_einsum(a: Array, b: Array, *, equation: str, budget: Budget = NO_BUDGET) -> Array:
  """Computes the sum of products of two operands by an equation without ellipsis.

  Source op: `XlaEinsum` (tf2xla).

  Args:
    a: first operand.
    b: second operand, dtype of `a`.
    equation: for example `"ab,bc->ac"`.
    budget: is asked for memory.

  Returns:
    Axes as the right side names them, dtype of `a`.
  """
  return einsum([a, b], equation=equation, budget=budget)


def _labels(term: str) -> list[str]:
  """Returns the labels of one term, with the ellipsis as one label."""
  before, dots, after = term.partition("...")
  return [*before, *([dots] if dots else []), *after]


def _check_sizes(equation: str, terms: list[str], operands: Sequence[Array]) -> dict[str, Any]:
  """Returns the sizes of the labels."""
  # jnp.einsum lets axes of size 1 broadcast under an ordinary label; TensorFlow raises an error.
  sizes: dict[str, Any] = {}
  for term, operand in zip(terms, operands, strict=True):
    labels = _labels(term)
    named = len(labels) - labels.count("...")
    if operand.ndim < named or (operand.ndim > named and "..." not in labels):
      raise InvalidInputError(f"Einsum: equation {equation!r}: term {term!r} does not fit shape {operand.shape}.")
    split = labels.index("...") if "..." in labels else len(labels)
    shape = (
      [*operand.shape[:split], *operand.shape[operand.ndim - (named - split) :]]
      if split < named
      else [*operand.shape[:split]]
    )
    for label, size in zip((x for x in labels if x != "..."), shape, strict=True):
      if sizes.setdefault(label, size) != size:
        raise InvalidInputError(
          f"Einsum: equation {equation!r}: label {label!r} has sizes {sizes[label]} and {size} "
          f"(shapes {[x.shape for x in operands]})."
        )
  return sizes


def _einsum(equation: str, left: str, output: list[str], operands: Sequence[Array]) -> Array:
  try:
    return jnp.einsum(f"{left}->{''.join(output)}", *operands)
  except (TypeError, ValueError) as e:
    raise InvalidInputError(
      f"Einsum: equation {equation!r} does not fit shapes {[x.shape for x in operands]}: {e}"
    ) from e


def _write_to_diagonals(values: Array, distinct: list[str], output: list[str]) -> Array:
  """Spreads `values` with axes `distinct` to the axes `output`; 0 where equal labels have unequal positions."""
  num_batch = values.ndim - (len(distinct) - 1) if "..." in distinct else 0
  widths = {label: num_batch if label == "..." else 1 for label in distinct}
  source_axes, axis = {}, 0
  for label in distinct:
    source_axes[label] = list(range(axis, axis + widths[label]))
    axis += widths[label]
  first_axis: dict[str, int] = {}
  order: list[int] = []
  new_axes: list[tuple[int, str]] = []
  position = 0
  for label in output:
    if label in first_axis:
      new_axes.append((position, label))
    else:
      first_axis[label] = position
      order.extend(source_axes[label])
    position += widths[label]
  spread = jnp.transpose(values, order)
  for position, _ in new_axes:
    spread = jnp.expand_dims(spread, position)
  for position, label in new_axes:
    size = spread.shape[first_axis[label]]
    shape = [1] * spread.ndim
    shape[position] = shape[first_axis[label]] = size
    spread = jnp.where(jnp.eye(size, dtype=bool).reshape(shape), spread, jnp.zeros((), spread.dtype))
  return spread
