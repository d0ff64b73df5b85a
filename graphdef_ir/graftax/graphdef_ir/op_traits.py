"""What graftax knows about TensorFlow ops beyond their signatures, in one table.

An op's signature gives its inputs and outputs. Its traits say how the passes, the planner and the evaluator must
treat it: which functions it calls, whether its effect can be observed, which resource it creates. An op that is not in
the table has the default traits.

>>> traits_of("If").functions
('then_branch', 'else_branch')
>>> traits_of("Relu") == OpTraits()
True
"""

import dataclasses
from collections.abc import Iterator
from typing import Literal, TypeAlias

__all__ = ["OpTraits", "traits_of", "ops_with_traits"]

Call: TypeAlias = Literal["function", "if", "case", "while", "for", "gradient"]
ControlFlowV1: TypeAlias = Literal["enter", "exit", "loop_cond", "merge", "next_iteration", "switch", "switch_n"]
Effect: TypeAlias = Literal["dropped", "asserts", "reads", "fresh", "flow"]
Made: TypeAlias = Literal["placeholder", "stack", "table", "anonymous_table", "tensor_array", "tensor_list", "variable"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OpTraits:
  """Properties of one op.

  Attributes:
    calls: how the op calls its functions: a `function` unconditionally, one branch of an `if` or a `case`, the
      condition and body of a `while`, the body of a `for`, or the derivative (`gradient`) of a function. None if the
      op calls no function. (`follow_calls` and `reachable_functions` need no entry here: they follow every attribute
      that holds a function.) A new kind may need a case in call inlining and in the raising of stacks
      (`passes/call_inlining.py`, `passes/_stacks.py`), in `EffectAnalysis._passed_on`, which says what resources the op
      returns (`convert/planning/effects.py`), and in `KnownOnly.run_step` (`convert/evaluation/loop_walk.py`).
    functions: names of the attributes that hold these functions.
    first_argument: position of the first input that is passed to the function. (`For` passes its counter in place of
      its first two bounds.)
    control_flow_v1: role of the op in TF1 control flow. `raise_control_flow` replaces these ops.
    reference: for ops on TF1 references, whether output 0 is the reference of input 0 (`forwarded`) or its value
      at that point (`read`).
    is_alias: output i is input i, unchanged.
    same_elements: output 0 has the elements of input 0 in the same order, perhaps in another shape.
    effect: for ops that TensorFlow marks as stateful, why the mark does not count here:
      `dropped`: it acts on the host only (summaries, printing), which has no counterpart in JAX;
      `asserts`: it acts on the host only, but counts under the option `enable_checkify_for_asserts`;
      `reads`: it reads or names state, so it does not matter whether, or how often, it runs;
      `fresh`: it makes a new resource or draws new numbers, so it can be skipped if its output is not read, but it
      must not run twice in place of once;
      `flow`: the order of these ops follows from their data, since the flow edge of a TensorArray carries the array.
      None: the op is stateful, as TensorFlow says.
    makes: what output 0 is. A `table` has a name by which several functions can share it; an `anonymous_table`
      belongs to the function that runs the op. A `placeholder` has to be fed.
    default_input: a placeholder that passes on its input if it is not fed.
    assigns: input 1 becomes the value of the variable that is input 0.
    fills: how the op fills the table that is input 0: from the `tensors` that are inputs 1 and 2, or from a `file`.
    is_constant_table: only its initializer fills the table that is output 0.
    marks_buckets: for tables with open addressing, inputs 0 and 1 are the keys of free and of deleted buckets.
    draws_from_variable: input 0 is a variable with the state of a random generator.
    reads_shapes: the result depends on the shapes of the inputs alone.
    large_result: the result can be large although the inputs are small, so it should not become a constant.
    decided_by: if all elements of one input have this value, so have those of the result.
    uniform: pairs of booleans: if all elements of the input are the first, those of the result are the second.
  """

  calls: Call | None = None
  functions: tuple[str, ...] = ()
  first_argument: int = 0
  control_flow_v1: ControlFlowV1 | None = None
  reference: Literal["forwarded", "read"] | None = None
  is_alias: bool = False
  same_elements: bool = False
  effect: Effect | None = None
  makes: Made | None = None
  default_input: bool = False
  assigns: bool = False
  fills: Literal["tensors", "file"] | None = None
  is_constant_table: bool = False
  marks_buckets: bool = False
  draws_from_variable: bool = False
  reads_shapes: bool = False
  large_result: bool = False
  decided_by: bool | None = None
  uniform: tuple[tuple[bool, bool], ...] = ()


def traits_of(op: str) -> OpTraits:
  """Returns the traits of an op; the default ones if the table does not list it.

  Example:
    >>> traits_of("Identity") == traits_of("NoSuchOp")
    False
  """
  return _TABLE.get(op, _DEFAULT)


def ops_with_traits() -> Iterator[str]:
  """Yields the ops of the table."""
  yield from _TABLE


_DEFAULT = OpTraits()

_BRANCHES = ("then_branch", "else_branch")

# Every op is in exactly one row.
_ROWS: tuple[tuple[str, OpTraits], ...] = (
  # Functions.
  ("PartitionedCall StatefulPartitionedCall", OpTraits(calls="function", functions=("f",))),
  ("If StatelessIf XlaIf", OpTraits(calls="if", functions=_BRANCHES, first_argument=1)),
  ("Case StatelessCase", OpTraits(calls="case", functions=("branches",), first_argument=1)),
  ("While StatelessWhile XlaWhile", OpTraits(calls="while", functions=("cond", "body"))),
  ("For", OpTraits(calls="for", functions=("body",), first_argument=2)),
  ("SymbolicGradient", OpTraits(calls="gradient", functions=("f",))),
  # TF1 control flow.
  ("Enter", OpTraits(control_flow_v1="enter")),
  ("RefEnter", OpTraits(control_flow_v1="enter", reference="forwarded")),
  ("Exit", OpTraits(control_flow_v1="exit")),
  ("RefExit", OpTraits(control_flow_v1="exit", reference="read")),
  ("Merge", OpTraits(control_flow_v1="merge")),
  ("RefMerge", OpTraits(control_flow_v1="merge", reference="read")),
  ("NextIteration", OpTraits(control_flow_v1="next_iteration")),
  ("RefNextIteration", OpTraits(control_flow_v1="next_iteration", reference="read")),
  ("Switch", OpTraits(control_flow_v1="switch")),
  ("_SwitchN", OpTraits(control_flow_v1="switch_n")),
  ("RefSwitch", OpTraits(control_flow_v1="switch", reference="forwarded")),
  ("LoopCond", OpTraits(control_flow_v1="loop_cond")),
  ("RefIdentity", OpTraits(reference="forwarded")),
  # Ops that pass values on.
  ("Identity Snapshot", OpTraits(is_alias=True, same_elements=True)),
  ("IdentityN", OpTraits(is_alias=True)),
  ("Reshape", OpTraits(same_elements=True)),
  ("ReadVariableOp", OpTraits(same_elements=True, effect="reads")),
  # Inputs and variables.
  ("Placeholder PlaceholderV2", OpTraits(makes="placeholder")),
  ("PlaceholderWithDefault", OpTraits(default_input=True)),
  ("VarHandleOp Variable VariableV2", OpTraits(makes="variable", effect="reads")),
  ("Assign AssignVariableOp", OpTraits(assigns=True)),
  ("IsVariableInitialized ReadVariableXlaSplitND ResourceGather ResourceGatherNd", OpTraits(effect="reads")),
  ("VarIsInitializedOp VariableShape", OpTraits(effect="reads")),
  # Tables.
  ("HashTable HashTableV2", OpTraits(makes="table", is_constant_table=True, effect="reads")),
  ("MutableHashTable MutableHashTableV2", OpTraits(makes="table", effect="reads")),
  ("MutableHashTableOfTensors MutableHashTableOfTensorsV2", OpTraits(makes="table", effect="reads")),
  ("MutableDenseHashTable MutableDenseHashTableV2", OpTraits(makes="table", marks_buckets=True, effect="reads")),
  ("AnonymousHashTable", OpTraits(makes="anonymous_table", is_constant_table=True, effect="fresh")),
  (
    "AnonymousMutableHashTable AnonymousMutableHashTableOfTensors",
    OpTraits(makes="anonymous_table", effect="fresh"),
  ),
  ("AnonymousMutableDenseHashTable", OpTraits(makes="anonymous_table", marks_buckets=True, effect="fresh")),
  ("LookupTableExportV2 LookupTableFindV2 LookupTableSizeV2", OpTraits(effect="reads")),
  ("InitializeTable InitializeTableV2 LookupTableImport LookupTableImportV2", OpTraits(fills="tensors")),
  ("InitializeTableFromTextFile InitializeTableFromTextFileV2", OpTraits(fills="file")),
  # Stacks, TensorArrays and tensor lists.
  ("StackV2", OpTraits(makes="stack", effect="reads")),
  ("TensorArrayV3", OpTraits(makes="tensor_array", effect="reads")),
  ("TensorArrayConcatV3 TensorArrayGatherV3 TensorArrayGradV3 TensorArrayReadV3", OpTraits(effect="reads")),
  ("TensorArraySizeV3", OpTraits(effect="reads")),
  ("TensorArrayCloseV3 TensorArrayScatterV3 TensorArraySplitV3 TensorArrayWriteV3", OpTraits(effect="flow")),
  ("EmptyTensorList TensorListFromTensor TensorListReserve TensorListScatter", OpTraits(makes="tensor_list")),
  ("TensorListScatterV2 TensorListSplit", OpTraits(makes="tensor_list")),
  ("RaggedTensorToVariant", OpTraits(large_result=True)),
  # Random numbers.
  ("Multinomial ParameterizedTruncatedNormal RandomGamma RandomPoissonV2 RandomShuffle", OpTraits(effect="fresh")),
  ("RandomStandardNormal RandomUniform RandomUniformInt TruncatedNormal", OpTraits(effect="fresh")),
  ("RngReadAndSkip RngSkip StatefulRandomBinomial StatefulStandardNormalV2", OpTraits(draws_from_variable=True)),
  ("StatefulTruncatedNormal StatefulUniform StatefulUniformFullInt", OpTraits(draws_from_variable=True)),
  ("StatefulUniformInt", OpTraits(draws_from_variable=True)),
  # Work for the host.
  ("Assert", OpTraits(effect="asserts")),
  ("Print PrintV2", OpTraits(effect="dropped")),
  ("CloseSummaryWriter CreateSummaryFileWriter FlushSummaryWriter ImportEvent", OpTraits(effect="dropped")),
  ("SummaryWriter", OpTraits(effect="fresh")),
  ("WriteAudioSummary WriteGraphSummary WriteHistogramSummary WriteImageSummary", OpTraits(effect="dropped")),
  ("WriteRawProtoSummary WriteScalarSummary WriteSummary", OpTraits(effect="dropped")),
  # Facts about results.
  ("Rank Shape ShapeN Size", OpTraits(reads_shapes=True)),
  ("BroadcastTo Empty Fill LinSpace OneHot Tile", OpTraits(large_result=True)),
  ("LogicalAnd", OpTraits(decided_by=False)),
  ("LogicalOr", OpTraits(decided_by=True)),
  ("LogicalNot", OpTraits(uniform=((True, False), (False, True)))),
  ("All", OpTraits(uniform=((True, True),))),
  ("Any", OpTraits(uniform=((False, False),))),
)

_TABLE = {op: traits for ops, traits in _ROWS for op in ops.split()}
assert len(_TABLE) == sum(len(ops.split()) for ops, _ in _ROWS), "internal: an op is in two rows"
