"""The check of `vmap` against a loop."""

from collections.abc import Callable, Collection
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from graftax.testing.raw_ops.oracle import RawOp

__all__ = ["check_vmap"]


def check_vmap(
  case: RawOp, run: Callable[..., Any], vmap: Literal[True] | Collection[str], compare: Callable[..., None]
) -> None:
  """Compares `vmap` with a loop over two examples, which `run` computes: the case itself, or the case under `jit`."""
  names = [name for name, static in zip(case.input_names, case.static, strict=True) if not static]
  everything = tuple(range(len(names)))
  if vmap is True:
    choices = [everything] + ([(i,) for i in everything] if len(names) > 1 else [])
  else:
    choices = [tuple(i for i in everything if names[i] in vmap)]
  arguments = [_stacked(case, batched) for batched in choices]
  axes = [tuple(0 if i in batched else None for i in everything) for batched in choices]
  # One compiled program for all choices: compiling is most of the time that a check takes.
  run_all = jax.jit(lambda choices: [jax.vmap(case.run, in_axes=a)(*xs) for a, xs in zip(axes, choices, strict=True)])
  for batched, stacked, outputs in zip(choices, arguments, run_all(arguments), strict=True):
    examples = [run(*[jnp.asarray(x[k] if i in batched else x) for i, x in enumerate(stacked)]) for k in range(2)]
    compare(
      f"vmap over {[names[i] for i in batched]}", outputs, [np.stack(pair) for pair in zip(*examples, strict=True)]
    )


def _stacked(case: RawOp, batched: Collection[int]) -> list[np.ndarray]:
  """Returns the inputs, with two examples of each batched one."""
  # The second example holds the same values in another order, so that it stays in the op's domain.
  return [
    np.stack([x, np.roll(x.reshape(-1), 1).reshape(x.shape)]) if i in batched else x
    for i, x in enumerate(case.dynamic_inputs)
  ]
