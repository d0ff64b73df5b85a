"""What there is to know about a SavedModel before it is converted, as plain data for tables and JSON."""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import tree

from graftax.convert import Program, unavailable_uses, unsupported_ops
from graftax.convert.planning.effects import EffectAnalysis, referenced_functions
from graftax.graphdef_ir import Function, GraftaxError, PartialShape, TensorSpec
from graftax.savedmodel_io import SavedModel
from graftax.savedmodel_io.conversion import program
from graftax.savedmodel_io.objects.functions import ConcreteFunction, RestoredFunction
from graftax.savedmodel_io.variables import VariableInfo

__all__ = [
  "FunctionReport",
  "ModelReport",
  "OpReport",
  "ParameterReport",
  "SignatureReport",
  "TensorReport",
  "report_model",
]

# Any in this module: specs of composite tensors share no base class, and function structures are arbitrary.


@dataclasses.dataclass(frozen=True, slots=True)
class TensorReport:
  """An input or output; sizes that are not known are None, and so is a `shape` of unknown rank."""

  name: str
  dtype: str
  shape: tuple[int | None, ...] | None

  def __str__(self) -> str:
    return f"{self.dtype}{PartialShape(self.shape)}"


@dataclasses.dataclass(frozen=True, slots=True)
class SignatureReport:
  """A signature, and what keeps it from being converted.

  Attributes:
    unsupported_ops: ops it needs that have no lowering.
    problem: why it cannot be converted at all, or None; does not repeat the ops.
  """

  name: str
  inputs: tuple[TensorReport, ...]
  outputs: tuple[TensorReport, ...]
  unsupported_ops: tuple[str, ...]
  problem: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class FunctionReport:
  """A restored function.

  Attributes:
    path: attribute path, as `SavedModel.convert` takes it.
    signature: its Python signature.
    traces: one text per trace: what it takes and returns.
    unsupported_ops: ops that its traces need and that have no lowering.
    problem: why it cannot be read, or None.
  """

  path: str
  signature: str
  traces: tuple[str, ...]
  unsupported_ops: tuple[str, ...]
  problem: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class ParameterReport:
  """A variable; `size_bytes` is None where the shape is not known, `is_used` says whether a signature reads it."""

  name: str
  dtype: str
  shape: tuple[int | None, ...] | None
  size_bytes: int | None
  trainable: bool
  has_value: bool
  is_used: bool


@dataclasses.dataclass(frozen=True, slots=True)
class OpReport:
  """How often an op occurs in what signatures and functions need, and whether it has a lowering."""

  op: str
  count: int
  supported: bool


@dataclasses.dataclass(frozen=True, slots=True)
class ModelReport:
  """Everything about a model.

  Attributes:
    format: `"TF2"`, or `"TF1"` where functions are parts of one graph.
    graph_size_bytes: size of `saved_model.pb`.
    uuid: what TensorFlow drew when it saved the model; "" where it did not.
    ops: unsupported ones first, then by count.
  """

  path: str
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

  def to_json(self) -> dict[str, Any]:
    """The same as dicts, lists, strings and numbers."""
    return dataclasses.asdict(self)


def report_model(model: SavedModel) -> ModelReport:
  """A report on all signatures, functions, parameters and ops. Reads no parameter's value.

  Raises:
    ParseError: the graph is damaged.
  """
  survey = _Survey(model)
  signatures = tuple(survey.signature(name) for name in model.signatures)
  functions = tuple(survey.function(path, function) for path, function in model.functions.items())
  fingerprint = model.fingerprint
  return ModelReport(
    path=model.path,
    format="TF1" if model.is_tf1 else "TF2",
    tensorflow_version=model.tensorflow_version,
    tags=tuple(sorted(model.tags)),
    graph_size_bytes=sum(file.stat().st_size for file in Path(model.path).glob("saved_model.pb*")),
    uuid="" if fingerprint is None else fingerprint.uuid,
    signatures=signatures,
    functions=functions,
    parameters=tuple(_parameter(info, info.name in survey.used) for info in model.variables.infos.values()),
    ops=survey.ops(),
    assets=tuple(model.assets),
  )


def _unavailable(found: Program) -> str | None:
  """What the program closes over and JAX cannot hold."""
  return "; ".join(unavailable_uses(found)) or None


class _Survey:
  """Collects ops over everything that can be called; a function that several call counts once."""

  def __init__(self, model: SavedModel):
    self._model = model
    self._library, self._op_signatures = model.graph.library, model.graph.signatures
    self._effects = EffectAnalysis(self._library, self._op_signatures)
    self._op_counts: dict[str, Counter[str]] = {}
    self._missing: set[str] = set()
    self.used: set[str] = set()

  def signature(self, name: str) -> SignatureReport:
    signature = self._model.signatures[name]
    missing: tuple[str, ...] = ()
    problem = None
    try:
      found = program(self._model, name, (), {})
      self.used.update(found.variables)
      missing = self._visit(found.function)
      problem = _unavailable(found)
    except GraftaxError as e:
      problem = str(e)
    return SignatureReport(name, _tensors(signature.inputs), _tensors(signature.outputs), missing, problem)

  def function(self, path: str, function: RestoredFunction) -> FunctionReport:
    missing: set[str] = set()
    problem = None
    try:
      for concrete in function.concrete_functions:
        missing.update(self._visit(self._library[concrete.name]))
      if len(function.concrete_functions) == 1:
        problem = _unavailable(program(self._model, path, (), {}))
    except GraftaxError as e:
      problem = str(e)
    python_signature = "(...)" if function.spec is None else str(function.spec.signature)
    traces = tuple(_trace(concrete) for concrete in function.concrete_functions)
    return FunctionReport(path, python_signature, traces, tuple(sorted(missing)), problem)

  def ops(self) -> tuple[OpReport, ...]:
    total: Counter[str] = sum(self._op_counts.values(), Counter())
    reports = [OpReport(op, count, op not in self._missing) for op, count in total.items()]
    return tuple(sorted(reports, key=lambda report: (report.supported, -report.count, report.op)))

  def _visit(self, function: Function) -> tuple[str, ...]:
    """Counts the ops of `function` and all that it calls; returns those without a lowering."""
    missing = unsupported_ops(function, self._library, self._op_signatures)
    self._missing.update(missing)
    pending = [function]
    while pending:
      current = pending.pop()
      if current.name not in self._op_counts:
        self._op_counts[current.name] = Counter()
        pending.extend(self._count(current))
    return tuple(missing)

  def _count(self, function: Function) -> Iterator[Function]:
    """Counts the ops of one function and yields the functions that it names."""
    needed = self._effects.needed_nodes(function)
    for node in function.nodes:
      if node.name in needed:
        if node.op not in self._library:
          self._op_counts[function.name][node.op] += 1
        for name in referenced_functions(node, self._library):
          if name in self._library:
            yield self._library[name]


def _parameter(info: VariableInfo, is_used: bool) -> ParameterReport:
  size_bytes = None
  if info.shape.is_static and info.dtype.base.tf_name not in ("string", "resource", "variant"):
    size_bytes = info.dtype.base.numpy.itemsize
    for size in info.shape.as_tuple():
      size_bytes *= size
  return ParameterReport(
    info.name, info.dtype.base.tf_name, info.shape.dims, size_bytes, info.trainable, info.has_value, is_used
  )


def _tensors(specs: Mapping[str, Any]) -> tuple[TensorReport, ...]:
  return tuple(_tensor(name, spec) for name, spec in specs.items())


def _tensor(name: str, spec: Any) -> TensorReport:
  if isinstance(spec, TensorSpec):
    return TensorReport(name, spec.dtype.tf_name, spec.shape.dims)
  dtype = f"{type(spec).__name__.removesuffix('Spec')}<{getattr(spec, 'dtype', '?')}>"
  return TensorReport(name, dtype, getattr(spec, "shape", PartialShape(None)).dims)


def _trace(concrete: ConcreteFunction) -> str:
  arguments = [_text(argument) for argument in concrete.args]
  arguments += [f"{name}={_text(argument)}" for name, argument in concrete.kwargs.items()]
  return f"({', '.join(arguments)}) -> {_text(concrete.outputs)}"


def _text(structure: Any) -> str:
  """A nested structure with `float32[?, 3]` for a tensor."""
  if hasattr(structure, "shape") and hasattr(structure, "dtype"):
    return str(_tensor("", structure))
  match structure:
    case dict() | Mapping():
      return "{" + ", ".join(f"{key}: {_text(value)}" for key, value in structure.items()) + "}"
    case tuple() if not hasattr(structure, "_fields"):
      return _joined(structure, "(", ")")
    case list():
      return _joined(structure, "[", "]")
  return repr(structure) if not tree.is_nested(structure) else str(tree.map_structure(_text, structure))


def _joined(values: Iterable[Any], begin: str, end: str) -> str:
  return begin + ", ".join(_text(value) for value in values) + end
