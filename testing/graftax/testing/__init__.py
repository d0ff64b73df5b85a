"""Differential tests against TensorFlow, of single ops and of whole models.

`check_conversion` compares a TensorFlow function with its conversion; see `graftax.testing.differential`.

Suites:

- `raw_ops`: single ops against TensorFlow.
- `generated`: generated calls of single ops.
- `differential`: TensorFlow programs against their conversions.
- `zoo`: saved models of known architectures.
- `keras_applications`: every model of `keras.applications`.
- `jax_to_tf`, `call_tf`, `plain_ops`: JAX functions in TensorFlow, TensorFlow in JAX, and JAX functions as plain ops.
- `call_modules`: exported StableHLO modules in TensorFlow.
- `stablehlo_conformance`: modules of the StableHLO specification.
- `bounded_sizes`: functions whose sizes depend on data.
- `hostile`: damaged and hostile files.
- `devices`: accelerators.
- `consumers`, `jax_consumers`, `jax_libraries`, `rewritten_models`, `c_api`: written models in other runtimes,
  libraries and releases.
- `written_models`: models written as Python source.
- `matched_models`: parameters matched into models of other libraries.
- `keras_export`: Keras's own tests of exporting.

What they run:

- `tensorflow_programs`: TensorFlow programs, by kind.
- `jax_functions`: JAX functions, by kind.
- `roundtrip_cases`: JAX functions to export and lift again.
- `public_functions`: example calls of public functions of JAX.
- `graph_builders`: small graphs without TensorFlow.
- `texts`: random texts.

What they share:

- `harness`: comparison, child processes, tables, cases by kind.
- `tolerance`: tolerances by dtype and op.
- `cotangents`: random tangents and cotangents.
- `resource_limits`: what reading a hostile file may cost.
- `child_process`: a child process that answers a request with JSON objects.
- `pytrees`: names of types for what programs take and return.
- `op_facts`: what checks show about each op, for the pages of ops.
"""

from graftax.testing.differential.runner import ConversionMismatchError, check_conversion, run_case
from graftax.testing.harness.conversion_case import CHECKS, ConversionCase
from graftax.testing.harness.results import CheckResult

__version__ = "0.1.0"

__all__ = ["CHECKS", "CheckResult", "ConversionCase", "ConversionMismatchError", "check_conversion", "run_case"]
