"""Run time of compiled functions that were exported and lifted again, beside the functions themselves.

Both are called in turns in one process, so that load from elsewhere falls on both alike.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

from graftax.tools.benchmarks.benchmark import OURS, Benchmark, Goal
from graftax.tools.benchmarks.reporting import Stages
from graftax.tools.pytrees import PyTree

__all__ = ["BENCHMARK", "main"]

_ORIGINAL = "original"
_COMMAND = ("graftax.tools.benchmarks.lifted_run_time",)

BENCHMARK = Benchmark(
  name="lifted-run-time",
  title="calls of compiled functions, exported and lifted or as they were",
  make_data=None,
  commands={OURS: _COMMAND, _ORIGINAL: _COMMAND},
  baseline=_ORIGINAL,
  in_one_process=True,
  goal=Goal(time=1.02),
)

# Cases of graftax.testing.roundtrip_cases with arguments large enough to be work rather than the call itself. Without
# `eigh`: its original computes eigenvectors that nothing uses, and the lifted one does not, which flatters the mean.
_SHAPES: dict[str, tuple[tuple[int, ...], ...]] = {
  "mlp": ((256, 256), (256, 1024), (1024, 256)),
  "attention": ((512, 64), (512, 64), (512, 64)),
  "causal_attention": ((384, 64), (64, 192)),
  "lstm": ((128, 64), (64, 512), (128, 512)),
  "conv_net": ((8, 32, 32, 1), (3, 3, 1, 16), (4096, 32)),
  "layer_norm": ((1024, 512), (512,)),
  "batch_norm": ((1024, 512), (512,)),
  "sgd_step": ((256, 64), (512, 256), (512, 64)),
  "mixed_precision": ((256, 256), (256, 256)),
  "conv2d": ((4, 16, 64, 64), (32, 16, 3, 3)),
  "conv_transpose": ((8, 256, 32), (3, 32, 64)),
  "depthwise_conv": ((2, 4, 2048), (8, 1, 3)),
  "max_pool": ((8, 64, 64, 16),),
  "avg_pool": ((8, 64, 64, 16),),
  "fft": ((65536,),),
  "sort": ((16, 1024),),
  "argsort": ((512, 16),),
  "top_k": ((256, 1024),),
  "take_along_axis": ((16, 512),),
  "cumsum": ((256, 1024),),
  "logsumexp_softmax": ((512, 1024),),
  "sum_mean_var": ((1024, 1024),),
  "erf": ((262144,),),
  "matmul_einsum": ((384, 384), (384, 384)),
  "batched_dot": ((32, 64, 64),),
  "cholesky": ((256, 256),),
  "solve": ((192, 192), (192, 192)),
  "qr": ((96, 64),),
  "svd": ((128, 64),),
  "triangular_solve": ((256, 256), (256, 256)),
  "expm": ((64, 64),),
  "scan": ((16384,),),
  "scan_reverse": ((16384, 2),),
  "nested_scan": ((64, 64),),
  "associative_scan": ((65536,),),
  "map": ((16, 512),),
  "while_counted": ((262144,),),
}
_SECONDS_A_CASE = 1.0
_MIN_ROUNDS, _MAX_ROUNDS = 25, 1000
_TOLERANCE = 1e-4


def main() -> None:
  import jax

  from graftax.testing.roundtrip_cases import CASES, arguments
  from graftax.xla_call_module import Module, lift

  stages = Stages()
  cases = {case.name: case for case in CASES}
  for name, shapes in _SHAPES.items():
    args = jax.device_put(arguments(cases[name], shapes=shapes))
    original = jax.jit(cases[name].function)
    lifted = jax.jit(lift(Module.from_exported(jax.export.export(original)(*args)), gradient="primal"))
    _check(name, jax.tree.leaves(original(*args)), lifted(*args), _TOLERANCE * cases[name].loose)
    for contestant, seconds in _in_turns({_ORIGINAL: original, OURS: lifted}, args).items():
      stages.times_s[f"{contestant}/{name}"] = seconds
  stages.report()


def _check(name: str, want: PyTree, got: PyTree, tolerance: float) -> None:
  import numpy as np

  for a, b in zip(got, want, strict=True):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), tolerance, tolerance, err_msg=name)


def _in_turns(functions: dict[str, Callable[..., Any]], args: PyTree) -> dict[str, float]:
  """Returns contestant -> the median time of a call, in seconds."""
  import jax

  def measure(function: Callable[..., Any]) -> float:
    start = time.perf_counter()
    jax.block_until_ready(function(*args))
    return time.perf_counter() - start

  once_s = sum(min(measure(function) for _ in range(3)) for function in functions.values())
  num_rounds = min(max(int(_SECONDS_A_CASE / once_s), _MIN_ROUNDS), _MAX_ROUNDS)
  times: dict[str, list[float]] = {name: [] for name in functions}
  for turn in range(num_rounds):
    for name in list(functions)[:: 1 if turn % 2 else -1]:
      times[name].append(measure(functions[name]))
  return {name: statistics.median(found) for name, found in times.items()}


if __name__ == "__main__":
  main()
