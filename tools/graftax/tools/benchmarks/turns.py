"""Measures calls so short that contestants take turns in one process."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from graftax.tools.benchmarks.benchmark import OURS
from graftax.tools.benchmarks.reporting import Stages

__all__ = ["measure_in_turns"]


# Any: what a call returns is an array of JAX, numpy or TensorFlow.
def measure_in_turns(cases: Mapping[str, Mapping[str, Callable[[], Any]]], num_rounds: int) -> None:
  """Reports the median time of each call, after its first.

  Args:
    cases: case -> contestant -> a call that returns an array, and has done its work when it returns.
    num_rounds: how often each is called.
  """
  stages = Stages()
  values = []
  for case, calls in cases.items():
    values.append(float(np.sum(calls[OURS]())))
    for call in calls.values():
      call()
    times_s: dict[str, list[float]] = {contestant: [] for contestant in calls}
    for _ in range(num_rounds):
      for contestant, call in calls.items():
        start = time.perf_counter()
        call()
        times_s[contestant].append(time.perf_counter() - start)
    for contestant, found in times_s.items():
      stages.times_s[f"{contestant}/{case}"] = statistics.median(found)
  stages.report(values)
