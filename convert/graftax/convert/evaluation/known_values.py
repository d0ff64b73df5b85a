"""Computes values that depend on constants alone, during the conversion."""

from collections.abc import Sequence

import jax
import numpy as np

from graftax.convert.evaluation.evaluate import Evaluator
from graftax.convert.evaluation.state import State
from graftax.convert.options import ConvertOptions
from graftax.convert.planning.effects import EffectAnalysis
from graftax.convert.planning.plan import Planner
from graftax.convert.program import Capture
from graftax.graphdef_ir import Budget, DType, Function, FunctionLibrary, OpSignatures, Result, TensorRef
from graftax.ops_jax import materialize

__all__ = ["known_values"]


def known_values(
  function: Function,
  refs: Sequence[TensorRef],
  captures: Sequence[Capture],
  library: FunctionLibrary,
  signatures: OpSignatures,
  budget: Budget | None = None,
) -> list[np.ndarray]:
  """Returns the values of tensors inside a function without inputs; 64-bit types keep their width.

  Args:
    function: the function, whose parameters are all bound to `captures`.
    refs: the tensors.
    captures: the values that the function closes over.
    library: the functions that it calls.
    signatures: signatures of all ops.
    budget: limits the work; None for that of `Limits()`.

  Raises:
    LimitExceededError: the work is more than `budget` allows.
    UnsupportedOpError: they depend on ops that have no lowering.
  """
  results = tuple(Result(f"result_{i}", ref, DType.INVALID) for i, ref in enumerate(refs))
  wanted = Function(function.name, function.parameters, results, function.nodes)
  # Nodes that only have side effects, such as filling a table, must not run.
  needed = EffectAnalysis(library, signatures).needed_nodes(wanted)
  wanted = Function(function.name, function.parameters, results, tuple(n for n in function.nodes if n.name in needed))
  with jax.enable_x64(True), jax.core.eval_context():
    planner = Planner(library, signatures, ConvertOptions())
    evaluator = Evaluator(planner, ConvertOptions(), State({}), None, budget=budget or Budget())
    return [np.asarray(materialize(value)) for value in evaluator.run(planner.plan_root(wanted), captures)]
