"""Tells whether a call has the derivative that a function with a rule of its own has, by running both.

The values are the same program, so the derivatives can differ only where the function has none. The arrays that are
tried have many such points: zeros of both signs, equal numbers and small integers.
"""

from collections.abc import Callable, Sequence

import jax
import numpy as np
from jax import export
from jax.typing import ArrayLike, DTypeLike

from graftax.convert.source_code.idioms.matching import matched
from graftax.convert.source_code.idioms.table import default_blocks
from graftax.convert.source_code.program import Block, Equation, Rule, Value
from graftax.convert.source_code.spelling.texts import dim_names, text

__all__ = ["same_rule"]


def same_rule(pattern: Block, equation: Equation, call: Callable[..., object]) -> bool:
  """Returns whether a call of one array is a `jax.custom_jvp` function with the same values and derivatives.

  Args:
    pattern: the program of the call.
    equation: calls the function.
    call: the call.
  """
  rule = equation.settings["rule"]
  if not isinstance(rule, Rule) or rule.jvp is None or len(rule.primal.inputs) != 1 or len(rule.primal.results) != 1:
    return False
  theirs = pattern
  if len(pattern.equations) == 1 and isinstance(pattern.equations[0].settings.get("rule"), Rule):
    theirs = pattern.equations[0].settings["rule"].primal
  if not any(_same_program(theirs, ours) for ours in default_blocks(rule.primal)):
    return False
  shape, dtype = rule.primal.inputs[0].shape, rule.primal.inputs[0].dtype
  jvp = rule.jvp
  if not all(isinstance(size, int) for size in shape):
    # A traced program has symbolic sizes in it; what is exported runs for all sizes.
    spec = jax.ShapeDtypeStruct(shape, dtype)
    jvp = export.export(jax.jit(jvp))(spec, spec).call
    shape = tuple(_size(size) for size in shape)
  return all(_same_at(jvp, call, x, dtype) for x in _points(shape))


def _size(size: object) -> int:
  """Returns a size in which each symbolic dimension is 2."""
  return int(eval(text(size), dict.fromkeys(dim_names(size), 2)))


def _same_program(theirs: Block, ours: Block) -> bool:
  """Returns whether two programs with one result are the same, up to the order of operands."""
  producers = {value: equation for equation in ours.equations for value in equation.outputs}
  result = ours.results[0]
  if not isinstance(result, Value) or result not in producers:
    return False
  match = matched(theirs, producers[result], producers, frozenset())
  return match is not None and [match.operands.get(value) for value in theirs.inputs] == list(ours.inputs)


def _points(shape: tuple[int, ...]) -> list[np.ndarray]:
  """Returns arrays at which derivatives are compared."""
  rng = np.random.default_rng(0)
  special = rng.choice([0.0, -0.0, 1.0, -1.0, 6.0, -3.0, 3.0], shape)
  return [rng.normal(scale=4, size=shape), rng.integers(-7, 8, shape).astype(float), special, np.zeros(shape)]


def _same_at(
  jvp: Callable[..., Sequence[ArrayLike]], call: Callable[..., object], x: np.ndarray, dtype: DTypeLike
) -> bool:
  point = x.astype(dtype)
  tangent = np.random.default_rng(1).normal(size=x.shape).astype(dtype)
  found = jvp(point, tangent)
  wanted = jax.jvp(call, (point,), (tangent,))
  return all(
    np.array_equal(np.asarray(a, np.float64), np.asarray(b, np.float64), equal_nan=True)
    for a, b in zip(found, wanted, strict=True)
  )
