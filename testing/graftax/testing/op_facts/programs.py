"""Whole programs of the differential suite, and what their checks show about the ops in them.

An op that reads or writes state, calls functions or holds a list cannot be called alone. It counts as checked if a
program that contains it agrees with TensorFlow.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from graftax.convert import convert
from graftax.graphdef_ir import OpSignatures
from graftax.ops_jax import supported_ops
from graftax.testing._tensorflow import TfFunction
from graftax.testing.differential.converters import Converter
from graftax.testing.differential.runner import run_case
from graftax.testing.harness.children import answer_cases, run_in_children
from graftax.testing.harness.conversion_case import ConversionCase
from graftax.testing.op_facts.evidence import Evidence
from graftax.testing.pytrees import PyTree
from graftax.testing.tensorflow_programs.catalogue import all_cases

__all__ = ["main", "program_evidence"]

_ENVIRONMENT = {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}
_CASES_PER_CHILD = 60
# The checks of a program, by what they show about its ops.
_SHOWN = {
  "value": "value",
  "jit": "jit",
  "grad": "gradient",
  "param_grad": "gradient",
  "vmap": "vmap",
  "export": "symbolic",
}


def program_evidence(record: Callable[[Evidence], None], timeout_s: float = 180.0) -> None:
  """Runs the programs and records what each shows about its ops."""

  def request(share: Sequence[ConversionCase]) -> list[str]:
    return [f"{case.kind}/{case.name}" for case in share]

  for _, answer in run_in_children(__name__, all_cases(), request, _ENVIRONMENT, timeout_s, _CASES_PER_CHILD):
    if answer.result is not None:
      for op in answer.result["ops"]:
        record({"op": op, "source": "program", "passed": answer.result["passed"]})


def main() -> None:
  """Runs the child."""
  answer_cases(_run)


def _run(keys: Sequence[str], say: Callable[[str], None]) -> Iterator[Mapping[str, list[str]]]:
  by_key = {f"{case.kind}/{case.name}": case for case in all_cases()}
  for key in keys:
    try:
      yield _shown(by_key[key])
    except Exception:  # the program does not run in this TensorFlow
      yield {"ops": [], "passed": []}


def _shown(case: ConversionCase) -> Mapping[str, list[str]]:
  ops = set[str]()

  def recording(function: TfFunction, specs: tuple[PyTree, ...]) -> tuple[Callable[..., Any], Mapping[str, Any]]:
    concrete = function.get_concrete_function(*specs) if hasattr(function, "get_concrete_function") else function
    graph = concrete.graph.as_graph_def()
    ops.update(node.op for node in graph.node)
    ops.update(node.op for inner in graph.library.function for node in inner.node_def)
    return convert(function, *specs)

  checks = [check for check in case.checks if check in _SHOWN]
  results = run_case(case, Converter("graftax", recording), checks=checks)
  passed = {_SHOWN[result.check] for result in results if result.passed}
  # A node that calls a function of the library has the function's name as its op.
  return {"ops": sorted(ops & (OpSignatures().keys() | supported_ops())), "passed": sorted(passed)}
