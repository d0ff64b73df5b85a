"""The run of a lowering that was exported with symbolic dimensions."""

import itertools
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax import Value, materialize, shape_vector
from graftax.testing.raw_ops.context import NodeContext
from graftax.testing.raw_ops.oracle import RawOp

__all__ = ["is_shape", "run_exported"]


def run_exported(
  case: RawOp, symbolic: Mapping[str, str | Sequence[str]], expected: Sequence[np.ndarray]
) -> Sequence[jax.Array]:
  """Returns the outputs of the op, exported with symbolic dimensions and then called with the inputs of the case."""
  if not symbolic.keys() <= set(case.input_names):
    raise AssertionError(f"{case.op}: symbolic={symbolic!r} names no input among {case.input_names!r}")
  scope = jax.export.SymbolicScope()
  texts = {name: iter(text if isinstance(text, list) else itertools.repeat(text)) for name, text in symbolic.items()}
  known: dict[int, np.ndarray] = {}
  traced: dict[int, np.ndarray] = {}
  carriers: list[np.ndarray] = []
  specs: tuple[dict[int, jax.ShapeDtypeStruct], list[jax.ShapeDtypeStruct]] = ({}, [])
  for i, (name, x, static) in enumerate(zip(case.input_names, case.inputs, case.static, strict=True)):
    dims = jax.export.symbolic_shape(next(texts[name]), scope=scope) if name in symbolic else x.shape
    if name in symbolic and is_shape(x):
      known[i] = shape_vector(dims).reshape(x.shape)
      # An array without elements carries the sizes into the exported function.
      sizes = [(dim, size) for dim, size in zip(dims, x.flat, strict=True) if jax.export.is_symbolic_dim(dim)]
      specs[1].append(jax.ShapeDtypeStruct((0, *(dim for dim, _ in sizes)), np.float32))
      carriers.append(np.zeros((0, *(size for _, size in sizes)), np.float32))
    elif static:
      known[i] = x
    else:
      specs[0][i] = jax.ShapeDtypeStruct(dims, x.dtype)
      traced[i] = x

  def run(traced: Mapping[int, Value], _: Sequence[Value]) -> list[jax.Array]:
    flat = [known[i] if i in known else traced[i] for i in range(len(case.inputs))]
    outputs = case.kernel.run(NodeContext(), flat)
    return [jnp.asarray(materialize(y, want.dtype)) for y, want in zip(outputs, expected, strict=True)]

  return jax.export.export(jax.jit(run))(*specs).call(traced, carriers)


def is_shape(x: np.ndarray) -> bool:
  return x.dtype.kind in "iu" and x.ndim <= 1
