"""What differs between the versions of JAX that we support: a function for each feature, with the version that ends it.

No other module may look at JAX's version; a test of the tree finds those that do. The names are of features, so that
callers read the same after the older form is deleted here.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

__all__ = [
  "INSTALLED",
  "KEEPS_JVP_RULES_IN_SCANS",
  "bind_equation",
  "expands_to",
  "parsed_artifact",
  "portable_artifact",
  "scan_operand_counts",
]


INSTALLED = jax.__version__
"""The version of JAX, for files that say what wrote them."""

KEEPS_JVP_RULES_IN_SCANS = jax.__version_info__ >= (0, 12)
"""Whether derivatives of second order in a `scan` follow the rule of a `jax.custom_jvp` function.

Until jax>=0.12: reverse mode over reverse mode differentiates the function itself there.
"""


def bind_equation(primitive: Any, operands: Sequence[Any], params: Mapping[str, Any]) -> Any:
  """Returns the results of an equation's primitive for other operands.

  Until jax>=0.10.2: `get_bind_params` returns functions beside the other parameters.
  """
  found = primitive.get_bind_params(params)
  functions, others = found if isinstance(found, tuple) else ((), found)
  return primitive.bind(*functions, *operands, **others)


def expands_to(primitive: Any, function: Callable[..., Any]) -> None:
  """Registers what a primitive with a jaxpr among its parameters becomes before lowering.

  Since JAX 0.12 `searchsorted`, `einsum` and others are primitives of a higher level, which JAX expands before
  lowering. A primitive whose jaxpr has such ones must expand too. Earlier versions ignore the attribute.
  """
  primitive.to_lojax = function


def scan_operand_counts(params: Mapping[str, Any]) -> tuple[int, int]:
  """Returns `(num_consts, num_carry)` of a `scan` equation.

  Until jax>=0.12: the counts are parameters. Since then one parameter has a tree for the constants, one for the carry
  and one for the rows.
  """
  if "num_carry" in params:
    return params["num_consts"], params["num_carry"]
  consts, carry, _ = params["ft_in"].unpack()
  return len(tuple(consts.vals)), len(tuple(carry.vals))


def portable_artifact(
  serialize: Callable[[Any, str], bytes], to_bytecode: Callable[[Any], bytes], module: Any, version: str
) -> bytes:
  """Returns an MLIR module as a portable artifact, written by JAX's binding `serialize`.

  Until jax>=0.10.2: the binding accepts bytecode instead of a module.
  """
  try:
    return serialize(module, version)
  except TypeError:
    return serialize(to_bytecode(module), version)


def parsed_artifact(found: Any, parse: Callable[[Any], Any]) -> Any:
  """Returns the MLIR module that JAX's binding made of a portable artifact.

  Until jax>=0.10.2: the binding returns the module as bytecode or text.
  """
  return parse(found) if isinstance(found, bytes | str) else found
