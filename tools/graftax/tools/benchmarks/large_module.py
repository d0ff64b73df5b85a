"""Decode, lift and trace StableHLO modules of about 10,000 ops, beside tracing the Python functions they came from.

Divide a time by 10,000 for the cost of an op. The original starts from Python, not from bytes: the ratio says what a
program costs that comes as an artifact.
"""

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from graftax.tools.benchmarks.benchmark import OURS, Benchmark
from graftax.tools.benchmarks.reporting import Stages
from graftax.tools.pytrees import Leaf, PyTree

__all__ = ["BENCHMARK", "main"]

_ORIGINAL = "original"
_COMMAND = ("graftax.tools.benchmarks.large_module",)

BENCHMARK = Benchmark(
  name="large-module",
  title="10,000 StableHLO ops from bytes to a jaxpr, and their Python function to a jaxpr",
  make_data=None,
  commands={OURS: _COMMAND, _ORIGINAL: _COMMAND},
  baseline=_ORIGINAL,
  in_one_process=True,
)

_NUM_OPS = 10_000
_NUM_ENCODER_LAYERS = 203  # of 49 ops each
_WIDTH = 8
_NUM_ROUNDS = 5


def main() -> None:
  stages = Stages()
  for name, (make, args) in {"elementwise": _elementwise(), "encoder": _encoder()}.items():
    for contestant, seconds in _in_turns(make, args).items():
      stages.times_s[f"{contestant}/{name}"] = seconds
  stages.report()


def _in_turns(make: Callable[[], Callable[..., Any]], args: PyTree) -> dict[str, float]:
  """Returns contestant -> the median time to a jaxpr, in seconds."""
  data = _artifact(make(), args)
  # A new function each time: JAX remembers what it traced.
  prepare: dict[str, Callable[[], Callable[..., Any]]] = {_ORIGINAL: make, OURS: partial(_lifted, data)}
  times: dict[str, list[float]] = {name: [] for name in prepare}
  for _ in range(_NUM_ROUNDS):
    for name, function in prepare.items():
      start = time.perf_counter()
      _trace(function(), args)
      times[name].append(time.perf_counter() - start)
  return {name: statistics.median(found) for name, found in times.items()}


def _trace(function: Callable[..., Any], args: PyTree) -> None:
  import jax

  jax.make_jaxpr(function)(*args)


def _artifact(function: Callable[..., Any], args: PyTree) -> bytes:
  import jax

  from graftax.xla_call_module import Module

  exported = jax.export.export(jax.jit(function))(*args)
  num_ops = sum(len(function.body.ops) for function in Module.from_exported(exported).ir.functions.values())
  assert 0.9 * _NUM_OPS < num_ops < 1.1 * _NUM_OPS, f"internal: the module has {num_ops} ops"
  return exported.mlir_module_serialized


def _lifted(data: bytes) -> Callable[..., Any]:
  from graftax.xla_call_module import Module, lift

  # Our own bytes: another process need not try them first.
  return lift(Module.from_bytes(data, guard=False))


def _elementwise() -> tuple[Callable[[], Callable[..., Any]], PyTree]:
  import jax
  from jax import lax

  def make() -> Callable[..., Any]:
    def function(x: Leaf) -> Leaf:
      y = x
      for index in range(_NUM_OPS):
        y = (lax.add, lax.mul)[index % 2](y, x)
      return y

    return function

  return make, (jax.ShapeDtypeStruct((_WIDTH,), "float32"),)


def _encoder() -> tuple[Callable[[], Callable[..., Any]], PyTree]:
  import jax
  import jax.numpy as jnp

  def layer(x: Leaf, w: Leaf) -> Leaf:
    scores = jax.nn.softmax((x @ w) @ x.T / jnp.sqrt(x.shape[-1]))
    x = x + scores @ (x @ w)
    x = (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-6)
    return x + jax.nn.gelu(x @ w) @ w

  def make() -> Callable[..., Any]:
    def function(x: Leaf, w: Leaf) -> Leaf:
      for _ in range(_NUM_ENCODER_LAYERS):
        x = layer(x, w)
      return x

    return function

  return make, (jax.ShapeDtypeStruct((4, _WIDTH), "float32"), jax.ShapeDtypeStruct((_WIDTH, _WIDTH), "float32"))


if __name__ == "__main__":
  main()
