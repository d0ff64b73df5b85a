"""Converted networks beside hand-written flax: `python -m graftax.tools.benchmarks.networks.on_device FOLDER`.

FOLDER is what `graftax.tools.benchmarks.networks.written` wrote. All sides have the same weights and run in turns in
one process: the converted function, the same network in flax, and if asked for the flax network after `jax.export` and
`lift`, and the converted function as source. In bfloat16 the converted function runs with `with_compute_dtype`. Prints
a table, and writes all figures with `--json`.
"""

import argparse
import dataclasses
import json
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from graftax import convert, savedmodel_io
from graftax.tools.benchmarks.networks import by_hand
from graftax.tools.benchmarks.networks.drawing import draw
from graftax.tools.pytrees import Leaf, PyTree
from graftax.xla_call_module import Module, lift, with_compute_dtype

__all__ = ["Row", "compare", "main"]

_INPUTS: dict[str, tuple[int, ...]] = {
  "mlp": (4096,),
  "resnet50": (224, 224, 3),
  "mobilenet_v2": (224, 224, 3),
  "transformer": (512, 768),
  "lstm": (128, 512),
}
_DTYPES = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}
_SIDES = ("graftax", "lifted", "source", "flax")
_DEFAULT_SIDES = ("graftax", "flax")

_Function = Callable[[PyTree, Leaf], Leaf]


@dataclasses.dataclass(frozen=True)
class Row:
  """What was measured of one network.

  Attributes:
    network: its name.
    dtype: of weights and input.
    batch: size of the input's first axis.
    pass_: "forward", or "gradient" of the sum of squared outputs with respect to all weights.
    ms: median time of a call, by side.
    instructions: number of instructions in the compiled module, by side.
    difference: norm of the difference from flax's results, in proportion to their norm, by the other sides.
  """

  network: str
  dtype: str
  batch: int
  pass_: str
  ms: dict[str, float]
  instructions: dict[str, int]
  difference: dict[str, float]


def compare(
  saved: Path, model: Any, dtype: str, shape: tuple[int, ...], seconds: float, sides: Sequence[str] = _DEFAULT_SIDES
) -> list[Row]:
  """Returns the rows of a SavedModel and the same model in flax: forward and gradient.

  Args:
    saved: the SavedModel's folder; its name is that of the network.
    model: the flax module of `by_hand` with the same layers.
    dtype: "float32" or "bfloat16".
    shape: of the input.
    seconds: how long to measure each row.
    sides: which of "graftax", "lifted", "source" and "flax" to run; the last one always runs.
  """
  fn, stored = savedmodel_io.load(saved).convert("serve")
  params = {name: value.astype(_DTYPES[dtype]) for name, value in draw({k: v.shape for k, v in stored.items()}).items()}
  x = jax.random.normal(jax.random.key(1), shape, _DTYPES[dtype])

  def ours(params: PyTree, x: Leaf) -> Leaf:
    return fn(params, x=x)[0]["y"]

  if dtype == "bfloat16":
    ours = with_compute_dtype(ours)

  def by_flax(params: PyTree, x: Leaf) -> Leaf:
    return model.apply(by_hand.variables_of(params), x)

  makers: dict[str, Callable[[], _Function]] = {
    "graftax": lambda: ours,
    "lifted": lambda: _lifted(by_flax, params, x),
    "source": lambda: _from_source(ours, params, x),
    "flax": lambda: by_flax,
  }
  forward = {side: makers[side]() for side in _SIDES if side in {*sides, "flax"}}
  gradients = {side: jax.grad(_loss(function)) for side, function in forward.items()}
  return [
    _row(saved.name, dtype, shape[0], name, functions, (params, x), seconds)
    for name, functions in {"forward": forward, "gradient": gradients}.items()
  ]


def _lifted(function: _Function, params: PyTree, x: Leaf) -> _Function:
  """Returns the function that is read back from what `jax.export` wrote of a function."""
  written = jax.export.export(jax.jit(function))(params, x).serialize(vjp_order=0)
  lifted = lift(Module.from_exported(written))
  return lambda params, x: lifted(*jax.tree.leaves((params, x)))[0]


def _from_source(function: _Function, params: PyTree, x: Leaf) -> _Function:
  """Returns the function that a written program has."""
  source = convert.to_source(function, params, x)
  written, constants = source.function(), [source.constants] * bool(source.constants)
  return lambda params, x: written(source.parameters(params), *constants, x)


def _loss(function: _Function) -> _Function:
  return lambda params, x: jnp.square(function(params, x).astype(jnp.float32)).sum()


def _row(
  network: str, dtype: str, batch: int, pass_: str, functions: dict[str, _Function], args: PyTree, seconds: float
) -> Row:
  compiled = {side: jax.jit(function).lower(*args).compile() for side, function in functions.items()}
  results = {side: jax.tree.leaves(function(*args)) for side, function in compiled.items()}
  counts = {side: sum(" = " in line for line in str(c.as_text()).splitlines()) for side, c in compiled.items()}
  expected = results.pop("flax")
  differences = {side: _difference(found, expected) for side, found in results.items()}
  return Row(network, dtype, batch, pass_, _in_turns(compiled, args, seconds), counts, differences)


def _difference(found: list[jax.Array], expected: list[jax.Array]) -> float:
  """Returns the norm of the difference in proportion to the norm of what is expected; NaN if either is not finite."""
  pairs = [(np.asarray(a, np.float64), np.asarray(b, np.float64)) for a, b in zip(found, expected, strict=True)]
  return _norm([a - b for a, b in pairs]) / _norm([b for _, b in pairs])


def _norm(arrays: Sequence[np.ndarray]) -> float:
  return math.sqrt(sum(float(np.square(x).sum()) for x in arrays))


def _in_turns(functions: Mapping[str, Callable[..., Any]], args: PyTree, seconds: float) -> dict[str, float]:
  """Returns side -> the median time of a call, in ms."""

  def once(function: Callable[..., Any]) -> float:
    start = time.perf_counter()
    jax.block_until_ready(function(*args))
    return 1e3 * (time.perf_counter() - start)

  both_ms = sum(min(once(function) for _ in range(3)) for function in functions.values())
  times: dict[str, list[float]] = {side: [] for side in functions}
  for turn in range(min(max(int(1e3 * seconds / both_ms), 5), 300)):
    for side in list(functions)[:: 1 if turn % 2 else -1]:
      times[side].append(once(functions[side]))
  return {side: statistics.median(found) for side, found in times.items()}


def _table(rows: list[Row]) -> Table:
  device = jax.devices()[0]
  table = Table(title=f"{device.device_kind}, JAX {version('jax')}: converted networks beside hand-written flax")
  for name in ("network", "dtype", "batch", "pass", "side", "ms", "to flax", "instructions", "difference"):
    table.add_column(name)
  for row in rows:
    heads = (row.network, row.dtype, str(row.batch), row.pass_)
    for side, ms in row.ms.items():
      difference = f"{row.difference[side]:.1e}" if side in row.difference else ""
      table.add_row(*heads, side, f"{ms:.3f}", f"{ms / row.ms['flax']:.2f}", str(row.instructions[side]), difference)
      heads = ("", "", "", "")
  return table


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("folder", type=Path, help="what graftax.tools.benchmarks.networks.written wrote")
  parser.add_argument("names", nargs="*", default=list(_INPUTS), help="networks (default: all)")
  parser.add_argument("--batch", type=int, default=32, help="size of the first axis (%(default)s)")
  parser.add_argument("--dtypes", nargs="*", choices=list(_DTYPES), default=list(_DTYPES), help="(both)")
  parser.add_argument("--sides", nargs="*", choices=_SIDES, default=_DEFAULT_SIDES, help="(graftax and flax)")
  parser.add_argument("--precision", help="of products of float32 (default: that of the device, TF32 on GPUs)")
  parser.add_argument("--seconds", type=float, default=2.0, help="of measuring a row (%(default)s)")
  parser.add_argument("--json", type=Path, help="where to write all figures")
  options = parser.parse_args()
  rows = []
  with jax.default_matmul_precision(options.precision):
    for name in options.names:
      for dtype in options.dtypes:
        shape, network = (options.batch, *_INPUTS[name]), by_hand.NETWORKS[name]()
        rows += compare(options.folder / name, network, dtype, shape, options.seconds, options.sides)
  Console(width=130).print(_table(rows))
  if options.json:
    options.json.write_text(json.dumps([dataclasses.asdict(row) for row in rows], indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
  main()
