"""Times of networks relative to the best of other frameworks and runtimes."""

from collections.abc import Mapping

from graftax.tools.benchmarks.benchmark import OURS

__all__ = ["RUNTIMES", "ratios_to_best"]

# They run models and compute no derivatives.
RUNTIMES = ("ONNX Runtime", "OpenVINO", "TFLite")
_FRAMEWORKS = ("TensorFlow", "TensorFlow with XLA", "TF2JAX", "Keras on JAX")
_FROZEN = "graftax, frozen"
# The best of a group is compared with the first of ours that was measured. Runtimes know the weights when they compile.
_GROUPS = {
  "the best framework": (_FRAMEWORKS, (OURS,)),
  "the best framework, frozen": (_FRAMEWORKS, (_FROZEN,)),
  "flax": (("flax",), (OURS,)),
  "the best runtime": (RUNTIMES, (_FROZEN, OURS)),
}


def ratios_to_best(medians: Mapping[str, float]) -> dict[str, float | None]:
  """Returns our time relative to the smallest of each group; None if either was not measured.

  Args:
    medians: contestant -> time of one run.
  """
  found: dict[str, float | None] = {}
  for title, (others, ours) in _GROUPS.items():
    mine = next((medians[name] for name in ours if name in medians), None)
    times = [medians[name] for name in others if name in medians]
    found[f"to {title}"] = None if mine is None or not times else mine / min(times)
  return found
