"""Replaces TensorFlow 1's control flow (Switch, Merge, Enter, Exit, NextIteration, LoopCond) by If and While nodes.

Loops come first, innermost first: each frame becomes a While node. The rest has no cycles. Its conditionals become If
nodes, outermost first; the contents of their branches are then treated in the same way.
"""

import dataclasses

from graftax.graphdef_ir.budget import Budget, Limits
from graftax.graphdef_ir.graph import Function
from graftax.graphdef_ir.graph.library import FunctionLibrary
from graftax.graphdef_ir.graph.traverse import reachable_functions
from graftax.graphdef_ir.passes._conditionals import raise_conditionals
from graftax.graphdef_ir.passes._loop_frames import collapse_loops
from graftax.graphdef_ir.passes._raising_workspace import OPS_WITH_ROLES, Region, Workspace
from graftax.graphdef_ir.passes._stacks import keeps_its_stacks, stacks_as_lists
from graftax.graphdef_ir.passes._switch_n import with_binary_switches
from graftax.graphdef_ir.passes.pruning import prune
from graftax.graphdef_ir.signatures import OpSignatures

__all__ = ["raise_control_flow"]


def raise_control_flow(
  function: Function,
  library: FunctionLibrary,
  signatures: OpSignatures | None = None,
  *,
  limits: Limits | None = None,
) -> tuple[Function, FunctionLibrary]:
  """Returns the function with functional control flow, and a library with its branches, conditions and bodies.

  Functions that it calls are treated too. If there is nothing to do, both are returned unchanged. A conditional becomes
  a StatelessIf, or an If if a branch has effects; loops likewise. TF1 reference variables that a branch or a loop reads
  or assigns are parameters of a reference type; stacks become tensor lists.

      >>> from graftax.graphdef_ir import DType, Node, Parameter, Result, TensorRef
      >>> t = {"T": DType.FLOAT}
      >>> nodes = (
      ...   Node("switch", "Switch", (TensorRef("x"), TensorRef("p")), attrs=t),
      ...   Node("neg", "Neg", (TensorRef("switch", 1),), attrs=t),
      ...   Node("merge", "Merge", (TensorRef("switch", 0), TensorRef("neg")), attrs={**t, "N": 2}),
      ... )
      >>> parameters = (Parameter("x", DType.FLOAT), Parameter("p", DType.BOOL))
      >>> f = Function("f", parameters, (Result("y", TensorRef("merge"), DType.FLOAT),), nodes)
      >>> raised, library = raise_control_flow(f, FunctionLibrary())
      >>> [(node.op, node.attrs["then_branch"].name) for node in raised.nodes]
      [('StatelessIf', 'f/merge/then')]
      >>> print(library["f/merge/then"])
      function f/merge/then(x: float32[unknown rank]) -> (result_0: float32)
        neg = Neg(x) {T=float32}
        return neg

  Args:
    function: the function.
    library: the functions it calls.
    signatures: of the ops it uses; TensorFlow's if None.
    limits: how many nodes are copied into branches, as `steps` and `steps_per_node`, and the levels of these.

  Raises:
    IrreducibleControlFlowError: Switches and Merges do not form conditionals, or a frame is not a loop; the message
      names the nodes.
    DeadBranchError: a result exists only in one branch of a conditional.
    UnknownOpError: the type of a tensor that enters a branch or loop is unknown.
    LimitExceededError: copies of nodes that several conditionals need multiply, or conditionals or loops are too deep
      inside each other.
  """
  signatures = OpSignatures() if signatures is None else signatures
  names = list(reachable_functions(function, library))
  budget = Budget(limits, num_nodes=len(function.nodes) + sum(len(library[name].nodes) for name in names))
  for name in names:
    raised, added = _raise(library[name], library, signatures, budget)
    if raised is not library[name]:
      library = library.replace({**added, name: raised})
  raised, added = _raise(function, library, signatures, budget)
  return raised, library.replace(added) if added else library


def _raise(
  function: Function, library: FunctionLibrary, signatures: OpSignatures, budget: Budget
) -> tuple[Function, dict[str, Function]]:
  if OPS_WITH_ROLES.isdisjoint([node.op for node in function.nodes]):
    return stacks_as_lists(function, {}) if keeps_its_stacks(function) else (function, {})
  pruned = with_binary_switches(prune(function), budget)
  workspace = Workspace(pruned, library, signatures, budget)
  region = Region(
    {node.name: node for node in pruned.nodes},
    [result.ref for result in pruned.results],
    list(pruned.control_results),
  )
  region = raise_conditionals(workspace, collapse_loops(workspace, region))
  results = tuple(
    dataclasses.replace(result, ref=ref) for result, ref in zip(pruned.results, region.results, strict=True)
  )
  raised = dataclasses.replace(
    pruned, nodes=tuple(region.nodes.values()), results=results, control_results=tuple(dict.fromkeys(region.roots))
  )
  return stacks_as_lists(raised, workspace.functions)
