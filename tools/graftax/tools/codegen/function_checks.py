"""How many JAX functions of the tests have an op or a primitive: a table that `make op-checks` renews."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

__all__ = ["FunctionChecks", "function_checks"]

_TABLE = Path(__file__).with_name("function_checks.json")


@dataclasses.dataclass(frozen=True, slots=True)
class FunctionChecks:
  """Numbers of functions.

  Attributes:
    functions: those that have the op or primitive.
    batches: those of them that are also compared under `vmap`.
    gradients: those of them whose derivatives are compared.
  """

  functions: int = 0
  batches: int = 0
  gradients: int = 0


def function_checks(kind: Literal["stablehlo", "primitives"]) -> Mapping[str, FunctionChecks]:
  """Returns the numbers by op or primitive."""
  rows = json.loads(_TABLE.read_text(encoding="utf-8"))[kind]
  return {name: FunctionChecks(**row) for name, row in rows.items()}
