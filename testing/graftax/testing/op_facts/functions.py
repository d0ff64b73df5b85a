"""JAX functions of two suites, and the primitives and StableHLO ops in them.

`testing/roundtrip_test.py` exports its functions, lifts them again and compares values, `vmap` and derivatives with
JAX. `graftax.testing.jax_to_tf` converts its functions to TensorFlow along all routes and compares values and
gradients.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import jax.extend.core
import numpy as np

from graftax.testing import roundtrip_cases
from graftax.testing.jax_functions.case import arguments, needs_x64
from graftax.testing.jax_functions.catalogue import all_cases
from graftax.testing.pytrees import Leaf

__all__ = ["functions_text"]

_OP = re.compile(r"(?<![\w#!])\"?((?:stablehlo|chlo)\.\w+)\"?(?= |\(|\n)")


def functions_text() -> str:
  """Returns a table as JSON: how many functions of the suites have each op or primitive, also with derivatives."""
  stablehlo, primitives = Counter[str](), Counter[str]()
  for case in roundtrip_cases.CASES:
    found = _stablehlo_ops(case.function, roundtrip_cases.arguments(case))
    stablehlo.update(f"{op} functions" for op in found)
    stablehlo.update(f"{op} gradients" for op in found if case.order)
    stablehlo.update(f"{op} batches" for op in found if case.batches)
  for converted in all_cases().values():
    if not converted.refusal:
      with jax.enable_x64(needs_x64(converted)):
        found = set(_primitives(jax.make_jaxpr(converted.function)(*arguments(converted)).jaxpr))
      primitives.update(f"{name} functions" for name in found)
      primitives.update(f"{name} gradients" for name in found if converted.gradient)
  tables = {"stablehlo": _rows(stablehlo), "primitives": _rows(primitives)}
  return json.dumps(tables, indent=1, sort_keys=True) + "\n"


def _rows(counts: Counter[str]) -> dict[str, dict[str, int]]:
  rows: dict[str, dict[str, int]] = {}
  for key, count in counts.items():
    name, _, kind = key.rpartition(" ")
    rows.setdefault(name, {})[kind] = count
  return rows


def _stablehlo_ops(function: Callable[..., Any], values: Iterable[Leaf]) -> set[str]:
  specs = [jax.ShapeDtypeStruct(np.shape(x), np.asarray(x).dtype) for x in values]
  return set(_OP.findall(jax.export.export(jax.jit(function))(*specs).mlir_module()))


def _primitives(jaxpr: jax.extend.core.Jaxpr) -> Iterator[str]:
  for equation in jaxpr.eqns:
    yield equation.primitive.name
    for inner in jax.tree.leaves(list(equation.params.values()), is_leaf=_is_jaxpr):
      if isinstance(inner, jax.extend.core.ClosedJaxpr):
        yield from _primitives(inner.jaxpr)
      elif isinstance(inner, jax.extend.core.Jaxpr):
        yield from _primitives(inner)


def _is_jaxpr(value: object) -> bool:
  return isinstance(value, (jax.extend.core.Jaxpr, jax.extend.core.ClosedJaxpr))
