"""Converted networks beside hand-written flax: `python -m graftax.tools.benchmarks.networks.on_device FOLDER`.

FOLDER is what `graftax.tools.benchmarks.networks.written` wrote. Both sides have the same weights and run in turns in
one process. In bfloat16 the converted function runs with `with_compute_dtype`. Prints a table, and writes all figures
with `--json`.
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

from graftax import savedmodel_io
from graftax.tools.benchmarks.networks import by_hand
from graftax.tools.benchmarks.networks.drawing import draw
from graftax.xla_call_module import with_compute_dtype

__all__ = ["Row", "compare", "main", "measure"]

# Any in this module: converted functions take and return nested structures.

_INPUTS: dict[str, tuple[int, ...]] = {
  "mlp": (4096,),
  "resnet50": (224, 224, 3),
  "mobilenet_v2": (224, 224, 3),
  "transformer": (512, 768),
  "lstm": (128, 512),
}
_DTYPES = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}
_SIDES = ("graftax", "flax")


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
    difference: norm of the difference of the two results, in proportion to the norm of flax's.
  """

  network: str
  dtype: str
  batch: int
  pass_: str
  ms: dict[str, float]
  instructions: dict[str, int]
  difference: float


def measure(folder: Path, network: str, dtype: str, batch: int, seconds: float) -> list[Row]:
  """Returns the rows of one network: forward and gradient."""
  return compare(folder / network, by_hand.NETWORKS[network](), dtype, (batch, *_INPUTS[network]), seconds)


def compare(saved: Path, model: Any, dtype: str, shape: tuple[int, ...], seconds: float) -> list[Row]:
  """Returns the rows of a SavedModel and the same model in flax.

  Args:
    saved: the SavedModel's folder; its name is that of the network.
    model: the flax module of `by_hand` with the same layers.
    dtype: "float32" or "bfloat16".
    shape: of the input.
    seconds: how long to measure each row.
  """
  fn, stored = savedmodel_io.load(saved).convert("serve")
  params = {name: value.astype(_DTYPES[dtype]) for name, value in draw({k: v.shape for k, v in stored.items()}).items()}
  x = jax.random.normal(jax.random.key(1), shape, _DTYPES[dtype])

  def ours(params: Any, x: Any) -> Any:
    return fn(params, x=x)[0]["y"]

  if dtype == "bfloat16":
    ours = with_compute_dtype(ours)
  functions: dict[str, Callable[[Any, Any], Any]] = {
    "graftax": ours,
    "flax": lambda params, x: model.apply(by_hand.variables_of(params), x),
  }
  gradients = {side: jax.grad(_loss(function)) for side, function in functions.items()}
  return [
    _row(saved.name, dtype, shape[0], name, sides, (params, x), seconds)
    for name, sides in {"forward": functions, "gradient": gradients}.items()
  ]


def _loss(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
  return lambda params, x: jnp.square(function(params, x).astype(jnp.float32)).sum()


def _row(
  network: str, dtype: str, batch: int, pass_: str, sides: dict[str, Callable[..., Any]], args: Any, seconds: float
) -> Row:
  compiled = {side: jax.jit(function).lower(*args).compile() for side, function in sides.items()}
  results = [jax.tree.leaves(compiled[side](*args)) for side in _SIDES]
  counts = {side: sum(" = " in line for line in str(c.as_text()).splitlines()) for side, c in compiled.items()}
  return Row(network, dtype, batch, pass_, _in_turns(compiled, args, seconds), counts, _difference(*results))


def _difference(found: list[jax.Array], expected: list[jax.Array]) -> float:
  """Returns the norm of the difference in proportion to the norm of what is expected; NaN if either is not finite."""
  pairs = [(np.asarray(a, np.float64), np.asarray(b, np.float64)) for a, b in zip(found, expected, strict=True)]
  return _norm([a - b for a, b in pairs]) / _norm([b for _, b in pairs])


def _norm(arrays: Sequence[np.ndarray]) -> float:
  return math.sqrt(sum(float(np.square(x).sum()) for x in arrays))


def _in_turns(functions: Mapping[str, Callable[..., Any]], args: Any, seconds: float) -> dict[str, float]:
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
  for name in ("network", "dtype", "batch", "pass", "graftax ms", "flax ms", "ratio", "instructions", "difference"):
    table.add_column(name)
  for row in rows:
    ours, theirs = (row.ms[side] for side in _SIDES)
    counts = " / ".join(str(row.instructions[side]) for side in _SIDES)
    times = (f"{ours:.3f}", f"{theirs:.3f}", f"{ours / theirs:.3f}")
    table.add_row(row.network, row.dtype, str(row.batch), row.pass_, *times, counts, f"{row.difference:.1e}")
  return table


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("folder", type=Path, help="what graftax.tools.benchmarks.networks.written wrote")
  parser.add_argument("names", nargs="*", default=list(_INPUTS), help="networks (default: all)")
  parser.add_argument("--batch", type=int, default=32, help="size of the first axis (%(default)s)")
  parser.add_argument("--dtypes", nargs="*", choices=list(_DTYPES), default=list(_DTYPES), help="(both)")
  parser.add_argument("--precision", help="of products of float32 (default: that of the device, TF32 on GPUs)")
  parser.add_argument("--seconds", type=float, default=2.0, help="of measuring a row (%(default)s)")
  parser.add_argument("--json", type=Path, help="where to write all figures")
  options = parser.parse_args()
  rows = []
  with jax.default_matmul_precision(options.precision):
    for name in options.names:
      for dtype in options.dtypes:
        rows += measure(options.folder, name, dtype, options.batch, options.seconds)
  Console(width=130).print(_table(rows))
  if options.json:
    options.json.write_text(json.dumps([dataclasses.asdict(row) for row in rows], indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
  main()
