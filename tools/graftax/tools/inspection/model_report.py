"""What a SavedModel holds and whether it converts, as plain data for tables and JSON."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from graftax.convert import Preflight, Program, convert_program, preflight, split_program
from graftax.graphdef_ir import Function, GraftaxError, Node, PartialShape, TensorSpec
from graftax.ops_jax import reason_without_lowering
from graftax.savedmodel_io import RestoredFunction, SavedModel, Signature, VariableInfo
from graftax.tools.inspection.abstract_trace import TraceResult, trace_program
from graftax.tools.pytrees import Json, Leaf

__all__ = [
  "Blocker",
  "FunctionReport",
  "Graphs",
  "ModelReport",
  "OpReport",
  "ParameterReport",
  "SignatureReport",
  "TensorReport",
  "Verdict",
  "report_model",
  "report_with_graphs",
]

# A graph and the functions that it calls, each with the nodes that a call runs.
Graphs = Sequence[tuple[Function, Sequence[Node]]]
# Nodes that are named for each blocker.
_NUM_PLACES = 3


@dataclasses.dataclass(frozen=True, slots=True)
class TensorReport:
  """An input or output; sizes that are not known are None, and so is a `shape` of unknown rank."""

  name: str
  dtype: str
  shape: tuple[int | None, ...] | None

  def __str__(self) -> str:
    return f"{self.dtype}{PartialShape(self.shape)}"


@dataclasses.dataclass(frozen=True, slots=True)
class Blocker:
  """An op that keeps a program from being converted.

  Attributes:
    op: its name.
    count: the number of its nodes.
    nodes: names of the first ones, each with its function.
    reason: why it has no lowering.
    remedy: what works instead.
  """

  op: str
  count: int
  nodes: tuple[tuple[str, str], ...]
  reason: str
  remedy: str


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
  """Whether a signature, or one trace of a function, can be converted.

  Attributes:
    unsupported_ops: ops it needs that have no lowering, first those that the host does not run either.
    host_ops: those among them that the host runs in a split model.
    problem: what else keeps it from being converted, or None.
    trace: what tracing on shapes found; None if it was not asked for or cannot be converted.
    splits: whether what cannot be converted is work for the host, so that `SavedModel.split` takes it.
    needs_rng: whether a call draws random numbers, so that it needs a key in `rng=`.
    updates: names of the variables that a call may assign.
    blockers: the unsupported ops that the host does not run either, with the reason and what works instead.
  """

  unsupported_ops: tuple[str, ...]
  problem: str | None
  trace: TraceResult | None = None
  splits: bool = False
  host_ops: tuple[str, ...] = ()
  needs_rng: bool = False
  updates: tuple[str, ...] = ()
  blockers: tuple[Blocker, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class SignatureReport:
  """A signature, and whether it can be converted."""

  name: str
  inputs: tuple[TensorReport, ...]
  outputs: tuple[TensorReport, ...]
  verdict: Verdict


@dataclasses.dataclass(frozen=True, slots=True)
class FunctionReport:
  """A restored function.

  Attributes:
    path: attribute path, as `SavedModel.convert` takes it.
    signature: its Python signature.
    traces: what each trace takes and returns, and whether it can be converted.
  """

  path: str
  signature: str
  traces: tuple[tuple[str, Verdict], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ParameterReport:
  """A variable; `size_bytes` is None if the shape is unknown, `is_used` is whether a signature reads it."""

  name: str
  dtype: str
  shape: tuple[int | None, ...] | None
  size_bytes: int | None
  trainable: bool
  has_value: bool
  is_used: bool


@dataclasses.dataclass(frozen=True, slots=True)
class OpReport:
  """How often an op occurs in what signatures and functions need.

  Attributes:
    op: its name.
    count: the number of nodes.
    supported: whether JAX or the host runs it.
    on_host: whether only the host runs it, in a split model.
  """

  op: str
  count: int
  supported: bool
  on_host: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class ModelReport:
  """What a model holds, and which of it converts.

  Attributes:
    kind: `"SavedModel"`, or what else it is, as in `graftax.savedmodel_io.SavedModel`.
    format: `"TF2"`, or `"TF1"` if functions are parts of one graph.
    graph_size_bytes: size of the file with the graph.
    uuid: the identifier in the fingerprint; "" if there is none.
    ops: unsupported ones first, then by count.
  """

  path: str
  kind: str
  format: str
  tensorflow_version: str
  tags: tuple[str, ...]
  graph_size_bytes: int
  uuid: str
  signatures: tuple[SignatureReport, ...]
  functions: tuple[FunctionReport, ...]
  parameters: tuple[ParameterReport, ...]
  ops: tuple[OpReport, ...]
  assets: tuple[str, ...]

  def to_json(self) -> dict[str, Json]:
    """Returns the same as dicts, lists, strings and numbers."""
    return dataclasses.asdict(self)


def report_model(model: SavedModel, *, trace: bool = False) -> ModelReport:
  """Returns a report on all signatures, functions, parameters and ops. Reads no parameter's value.

  Args:
    model: a loaded model; load it with `verify=False`, since verification reads all values.
    trace: also trace everything that can be converted, on shapes alone.

  Raises:
    ParseError: the graph is damaged.
  """
  return report_with_graphs(model, trace=trace)[0]


def report_with_graphs(model: SavedModel, *, trace: bool = False) -> tuple[ModelReport, dict[str, Graphs]]:
  """Returns what `report_model` returns, and the graphs that it looked at, by the names of signatures and functions."""
  survey = _Survey(model, trace=trace)
  signatures = tuple(survey.signature(signature) for signature in model.signatures.values())
  functions = tuple(survey.function(path, function) for path, function in model.functions.items())
  fingerprint = model.fingerprint
  report = ModelReport(
    path=model.path,
    kind=model.kind,
    format="TF1" if model.is_tf1 else "TF2",
    tensorflow_version=model.tensorflow_version,
    tags=tuple(sorted(model.tags)),
    graph_size_bytes=_graph_size(Path(model.path)),
    uuid="" if fingerprint is None else fingerprint.uuid,
    signatures=signatures,
    functions=functions,
    parameters=tuple(_parameter(info, info.name in survey.used) for info in model.variables.infos.values()),
    ops=survey.ops(),
    assets=tuple(model.assets),
  )
  return report, survey.graphs


def _graph_size(path: Path) -> int:
  files = [path] if path.is_file() else path.glob("saved_model.*pb*")
  return sum(file.stat().st_size for file in files)


def _splits(program: Program) -> bool:
  try:
    split_program(program)
  except GraftaxError:
    return False
  return True


class _Survey:
  """Examines everything that can be called; ops of a function that several call count once."""

  def __init__(self, model: SavedModel, *, trace: bool):
    self._model = model
    self._trace = trace
    # By identity: functions made of TF1 control flow may have the same name in several signatures.
    self._counted: dict[int, Function] = {}
    self._op_counts: Counter[str] = Counter()
    self._missing: set[str] = set()
    self._on_host: set[str] = set()
    self.used: set[str] = set()
    self.graphs: dict[str, Graphs] = {}

  def signature(self, signature: Signature) -> SignatureReport:
    verdict, program = self._examine(f"signature {signature.name}", lambda: self._model.program(signature))
    if program is not None:
      self.used.update(program.variables)
    return SignatureReport(signature.name, _tensors(signature.inputs), _tensors(signature.outputs), verdict)

  def function(self, path: str, function: RestoredFunction) -> FunctionReport:
    python_signature = "(...)" if function.spec is None else str(function.spec.signature)
    traces = tuple(
      (
        str(concrete),
        self._examine(f"{path}{concrete}", partial(self._model.program_from_trace, function, position))[0],
      )
      for position, concrete in enumerate(function.concrete_functions)
    )
    return FunctionReport(path, python_signature, traces)

  def ops(self) -> tuple[OpReport, ...]:
    reports = [
      OpReport(op, count, op not in self._missing, op in self._on_host - self._missing)
      for op, count in self._op_counts.items()
    ]
    return tuple(sorted(reports, key=lambda report: (report.supported, not report.on_host, -report.count, report.op)))

  def _examine(self, name: str, read: Callable[[], Program]) -> tuple[Verdict, Program | None]:
    """Judges one program as conversion does: by the same preflight, and then by planning it."""
    missing: tuple[str, ...] = ()
    program = None
    try:
      program = read()
      found = preflight(program)
      self.graphs[name] = found.functions
      self._count(found)
      missing = tuple(sorted(found.unsupported_ops, key=lambda op: (op in found.on_host, op)))
      self._missing.update(set(missing) - found.on_host)
      self._on_host.update(found.on_host)
      facts: Json = {"needs_rng": found.draws_random_numbers, "updates": found.updated_variables}
      if missing or found.unavailable:
        problem, on_host = "; ".join(found.unavailable) or None, tuple(sorted(found.on_host))
        blockers = tuple(_blocker(op, found) for op in missing if op not in found.on_host)
        verdict = Verdict(missing, problem, None, _splits(program), on_host, blockers=blockers, **facts)
        return verdict, program
      convert_program(found.program)
      return Verdict((), None, trace_program(found.program) if self._trace else None, **facts), program
    except GraftaxError as e:
      return Verdict(missing, str(e)), program

  def _count(self, found: Preflight) -> None:
    """Counts the ops of a program's function and of all functions that it calls."""
    for function, nodes in found.functions:
      if id(function) not in self._counted:
        self._counted[id(function)] = function
        self._op_counts.update(node.op for node in nodes if node.op not in found.program.library)


def _blocker(op: str, found: Preflight) -> Blocker:
  places = found.unsupported_ops[op]
  reason, _, remedy = (reason_without_lowering(op) or "it has no lowering").partition("; ")
  remedy = remedy or (
    "register one with @graftax.ops_jax.register, use fallback='tensorflow' if TensorFlow can compile it, or "
    "convert a part of the graph without it (convert_subgraph)"
  )
  return Blocker(op, len(places), tuple(places[:_NUM_PLACES]), reason, remedy)


def _parameter(info: VariableInfo, is_used: bool) -> ParameterReport:
  size_bytes = None
  if info.shape.is_static and info.dtype.base.tf_name not in ("string", "resource", "variant"):
    size_bytes = info.dtype.base.numpy.itemsize
    for size in info.shape.as_tuple():
      size_bytes *= size
  return ParameterReport(
    info.name, info.dtype.base.tf_name, info.shape.dims, size_bytes, info.trainable, info.has_value, is_used
  )


def _tensors(specs: Mapping[str, Leaf]) -> tuple[TensorReport, ...]:
  return tuple(_tensor(name, spec) for name, spec in specs.items())


def _tensor(name: str, spec: Leaf) -> TensorReport:
  if isinstance(spec, TensorSpec):
    return TensorReport(name, spec.dtype.tf_name, spec.shape.dims)
  dtype = f"{type(spec).__name__.removesuffix('Spec')}<{getattr(spec, 'dtype', '?')}>"
  return TensorReport(name, dtype, getattr(spec, "shape", PartialShape(None)).dims)
