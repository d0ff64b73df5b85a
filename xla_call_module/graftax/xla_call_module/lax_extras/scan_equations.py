"""The operands of `scan` equations."""

from collections.abc import Mapping
from typing import Any

from graftax.xla_call_module import jax_versions

__all__ = ["scan_sizes"]


def scan_sizes(params: Mapping[str, Any]) -> tuple[int, int]:
  """Returns `(num_consts, num_carry)`: how many of the first operands of a `scan` equation are which.

  Example:
    >>> import jax
    >>> import numpy as np
    >>> jaxpr = jax.make_jaxpr(lambda c, rows: jax.lax.scan(lambda c, row: (c + row, c), c, rows))(0.0, np.ones(3))
    >>> scan_sizes(jaxpr.eqns[0].params)
    (0, 1)
  """
  return jax_versions.scan_operand_counts(params)
