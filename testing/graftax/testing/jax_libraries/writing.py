"""Writes programs as SavedModels beside the numbers that JAX computes, and reads them back."""

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import Array

from graftax.graphdef_ir import GraftaxError
from graftax.savedmodel_io import JaxFunction, load, save
from graftax.testing.harness.compare import difference, is_inexact, scale_of
from graftax.testing.harness.errors import error_text
from graftax.testing.jax_libraries.program import DOORS, Program, door, vectors

__all__ = ["write_outcomes", "write_program"]

# Written once for both releases.
_TARGET = "tensorflow-2.16"
_MAX_DETAIL = 300


def write_program(program: Program, folder: Path) -> dict[str, str]:
  """Writes a program, and returns the outcome of each door that needs no TensorFlow.

  The folder gets `model` and `numbers.npz`, with arguments, directions and what each door returns in JAX. A door that
  JAX does not have is not in it.

  Returns:
    "write" and "read back: value" and so on -> "right", "refused: ..." if writing raises a typed error, "not in JAX",
    or what is wrong.
  """
  folder.mkdir(parents=True, exist_ok=True)
  outcomes: dict[str, str] = {}

  def flat(*args: Array) -> list[Array]:
    return jax.tree.leaves(program.function(*args))

  numbers = _numbers(flat, program, outcomes)
  if "value" in outcomes:
    return {"write": f"the program fails in JAX: {outcomes['value']}"}
  keywords: Any = numbers  # NumPy types keywords as its own option
  np.savez(folder / "numbers.npz", **keywords)
  specs = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in program.args)
  try:
    save(folder / "model", {"f": JaxFunction(flat, specs, takes_params=False)}, target=_TARGET, overwrite=True)
  except GraftaxError as e:
    return outcomes | {"write": f"refused: {error_text(e, _MAX_DETAIL)}"}
  except Exception as e:
    return outcomes | {"write": f"untyped: {error_text(e, _MAX_DETAIL)}"}
  outcomes["write"] = "right"
  return outcomes | _read_back(folder, program, numbers)


def _numbers(flat: Any, program: Program, outcomes: dict[str, str]) -> dict[str, np.ndarray]:
  """Returns what each door returns in JAX; a door that fails there is "not in JAX"."""
  numbers = {f"arg_{i}": x for i, x in enumerate(program.args)}
  directions: list[list[np.ndarray]] = []
  for order, name in enumerate(DOORS):
    try:
      found = [np.asarray(x) for x in jax.jit(door(flat, order, directions))(*program.args)]
    except Exception as e:
      outcomes[name] = f"not in JAX: {error_text(e, _MAX_DETAIL)}"
      break
    numbers |= {f"{name}_{i}": x for i, x in enumerate(found)}
    directions.append(vectors(found, order))
    numbers |= {f"direction_{order}_{i}": x for i, x in enumerate(directions[-1])}
    if not directions[-1]:
      outcomes[DOORS[min(order + 1, 2)]] = "not in JAX: no results of floating point"
      break
  return numbers


def _read_back(folder: Path, program: Program, numbers: dict[str, np.ndarray]) -> dict[str, str]:
  function, params = load(folder / "model").convert("f", *program.args)
  outcomes = {}

  def flat(*args: Array) -> list[Array]:
    return jax.tree.leaves(function(params, *args)[0])

  directions = [_group(numbers, f"direction_{order}_") for order in range(2)]
  for order, name in enumerate(DOORS):
    want = _group(numbers, f"{name}_")
    if not want:
      continue
    try:
      got = jax.jit(door(flat, order, directions))(*program.args)
      outcomes[f"read back: {name}"] = _difference([np.asarray(x) for x in got], want)
    except LookupError as e:  # of PreventGradient, which saving wrote with the reason
      outcomes[f"read back: {name}"] = (
        f"{'refused' if 'PreventGradient' in str(e) else 'raised'}: {error_text(e, _MAX_DETAIL)}"
      )
    except Exception as e:
      outcomes[f"read back: {name}"] = f"raised: {error_text(e, _MAX_DETAIL)}"
  return outcomes


def _group(numbers: dict[str, np.ndarray], prefix: str) -> list[np.ndarray]:
  return [numbers[f"{prefix}{i}"] for i in range(len(numbers)) if f"{prefix}{i}" in numbers]


def _difference(got: list[np.ndarray], want: list[np.ndarray], rtol: float = 5e-3) -> str:
  """Returns "right", or how the arrays differ."""
  for x, y in zip(got, want, strict=True):
    bound = rtol if is_inexact(y.dtype) else 0.0
    if wrong := difference(x, y, bound, bound * scale_of(y)):
      return f"wrong: {wrong}"
  return "right"


def write_outcomes(folder: Path, outcomes: dict[str, str]) -> None:
  (folder / "outcomes.json").write_text(json.dumps(outcomes, indent=1), encoding="utf-8")
