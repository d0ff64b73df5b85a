"""All benchmarks, in the order in which they run."""

from graftax.tools.benchmarks import (
  bounded_sizes,
  call_tf_jit,
  checkpoint_load,
  checkpoint_write,
  depthwise,
  import_time,
  jax_to_tf_eager,
  large_constant,
  large_graph,
  large_module,
  lifted_run_time,
  resnet50_first_result,
  saved_model_write,
)
from graftax.tools.benchmarks.benchmark import Benchmark

__all__ = ["BENCHMARKS"]

BENCHMARKS: tuple[Benchmark, ...] = (
  resnet50_first_result.BENCHMARK,
  large_graph.BENCHMARK,
  depthwise.BENCHMARK,
  import_time.BENCHMARK,
  lifted_run_time.BENCHMARK,
  large_module.BENCHMARK,
  large_constant.BENCHMARK,
  checkpoint_load.BENCHMARK,
  checkpoint_write.BENCHMARK,
  jax_to_tf_eager.BENCHMARK,
  call_tf_jit.BENCHMARK,
  bounded_sizes.BENCHMARK,
  saved_model_write.BENCHMARK,
)
