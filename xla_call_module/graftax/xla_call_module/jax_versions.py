"""What differs between the versions of JAX that we support: a function for each feature, with the version that ends it.

No other module may look at JAX's version; a test of the tree finds those that do. The names are of features, so that
callers read the same after the older form is deleted here.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax

__all__ = [
  "INSTALLED",
  "KEEPS_JVP_RULES_IN_SCANS",
  "Operand",
  "bind_equation",
  "expands_to",
  "mulhi",
  "parsed_artifact",
  "portable_artifact",
  "scan_operand_counts",
  "varies_over_mesh",
]


INSTALLED = jax.__version__
"""The version of JAX, for files that say what wrote them."""

KEEPS_JVP_RULES_IN_SCANS = jax.__version_info__ >= (0, 12)
"""Whether derivatives of second order in a `scan` follow the rule of a `jax.custom_jvp` function.

Until jax>=0.12: reverse mode over reverse mode differentiates the function itself there.
"""


Operand: TypeAlias = Any
"""What an equation of a jaxpr takes and returns: an array, a tracer, a number, a token or a reference."""


def bind_equation(primitive: Any, operands: Sequence[Operand], params: Mapping[str, Any]) -> Any:
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


def mulhi(x: jax.Array, y: jax.Array) -> jax.Array:
  """Returns the high words of the products of integers, as `jax.lax.mulhi` does.

  Until jax>=0.10.2: that function does not exist, and the words are put together from products of half words.

  Args:
    x: integers of any width, signed or unsigned.
    y: of the same shape and dtype.

  Returns:
    `floor(x * y / 2**bits)`, of the same shape and dtype.

  Example:
    >>> mulhi(jax.numpy.uint32([2**31, 3]), jax.numpy.uint32([6, 3]))
    Array([3, 0], dtype=uint32)
  """
  return lax.mulhi(x, y) if hasattr(lax, "mulhi") else mulhi_of_halves(x, y)


def mulhi_of_halves(x: jax.Array, y: jax.Array) -> jax.Array:
  """`mulhi` without the primitive."""
  dtype = x.dtype
  unsigned = jnp.dtype(dtype.name.removeprefix("u").replace("int", "uint"))
  half = jnp.array(jnp.iinfo(dtype).bits // 2, unsigned)
  mask = (jnp.array(1, unsigned) << half) - 1
  a, b = x.astype(unsigned), y.astype(unsigned)
  (a0, a1), (b0, b1) = (a & mask, a >> half), (b & mask, b >> half)
  # Neither sum exceeds a word: (2**h - 1)**2 + 2**h - 1 < 2**(2 * h).
  first = a1 * b0 + ((a0 * b0) >> half)
  second = a0 * b1 + (first & mask)
  high = a1 * b1 + (first >> half) + (second >> half)
  if dtype != unsigned:
    # As unsigned numbers, negative ones are larger by 2**bits.
    high = high - jnp.where(x < 0, b, 0) - jnp.where(y < 0, a, 0)
  return high.astype(dtype)


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


def varies_over_mesh(x: Any) -> bool:
  """Returns whether an array may differ between devices, in a `jax.shard_map` that checks it.

  Until jax>=0.12: the type of an array has the names of these axes in `vma`.
  """
  aval: Any = jax.typeof(x)
  return bool(aval.manual_axis_type.varying if hasattr(aval, "manual_axis_type") else aval.vma)
