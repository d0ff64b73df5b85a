"""What is stored in a model, each part decoded on first use."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from graftax.graphdef_ir import GraftaxError, Graph, Limits, ModelFolder, Tensor, graph_from_proto, schema
from graftax.savedmodel_io.checkpoint.reader import CheckpointReader
from graftax.savedmodel_io.errors import DamagedSavedModelError
from graftax.savedmodel_io.files.assets import Assets
from graftax.savedmodel_io.files.fingerprint import Fingerprint, read_fingerprint
from graftax.savedmodel_io.files.model_files import ModelKind
from graftax.savedmodel_io.graph_signature import graph_signatures
from graftax.savedmodel_io.objects.functions import ConcreteFunction
from graftax.savedmodel_io.objects.object_graph import BareFunctionObject, FunctionObject, ObjectGraph
from graftax.savedmodel_io.objects.restored_functions import FunctionReader, Resources, RestoredFunctions
from graftax.savedmodel_io.signatures import Signatures, init_op, read_signatures
from graftax.savedmodel_io.variables.progress import ReadProgress
from graftax.savedmodel_io.variables.variables import Variables

__all__ = ["ModelParts", "has_functions"]

# The signatures and the function by which models are called, in the order of preference: "default" is that of TF1 hub
# modules, and a reusable SavedModel without signatures has only the function.
_ENTRIES = ("serving_default", "default", "__call__")


@dataclass(frozen=True, eq=False)
class ModelParts:
  """The parts of a model on disk. `SavedModel`, whose attributes these are, makes functions and files of them."""

  path: str
  kind: ModelKind
  tags: frozenset[str]
  tag_sets: tuple[frozenset[str], ...]
  tensorflow_version: str
  checkpoint: CheckpointReader | None = field(repr=False)
  variables: Variables = field(repr=False)
  assets: Assets = field(repr=False)
  folder: ModelFolder = field(repr=False)
  objects: ObjectGraph = field(repr=False)
  _meta_graph: schema.MetaGraphDef = field(repr=False)
  _checkpoint_keys: Mapping[int, Mapping[str, str]] = field(repr=False)
  _progress: ReadProgress | None = field(repr=False)
  _limits: Limits = field(repr=False)

  @cached_property
  def signatures(self) -> Signatures:
    """Signature name -> named inputs and outputs.

    A graph that was saved without signatures gets one: "serving_default", from its placeholders to all tensors that
    nothing reads.
    """
    signatures = read_signatures(self._meta_graph, self._functions)
    return signatures if signatures or self.kind == "SavedModel" else graph_signatures(self.graph)

  @cached_property
  def functions(self) -> RestoredFunctions:
    """Attribute path -> restored function with all its concrete functions. Empty in a TF1 model."""
    return RestoredFunctions(self._functions)

  @cached_property
  def resources(self) -> Resources:
    """Attribute path -> table or other resource, with the functions that make and fill it."""
    return Resources(self._functions)

  @cached_property
  def graph(self) -> Graph:
    """The whole graph with its function library, whose functions are parsed when they are asked for.

    Raises:
      ParseError: the graph contradicts itself.
      LimitExceededError: its constants expand to more than the limits of the load allow.
    """
    ops = self._meta_graph.meta_info_def.stripped_op_list
    return graph_from_proto(self._meta_graph.graph_def, extra_ops=ops, limits=self._limits)

  @cached_property
  def fingerprint(self) -> Fingerprint | None:
    """The hashes that TensorFlow wrote beside the model; None if it wrote none."""
    return read_fingerprint(self.path, self.folder) if self.kind == "SavedModel" else None

  @property
  def is_tf1(self) -> bool:
    """Whether its functions are parts of one graph rather than restored functions."""
    return not has_functions(self.objects)

  @property
  def init_op(self) -> str | None:
    """The graph node that fills a TF1 model's tables; None if there is none."""
    return init_op(self._meta_graph)

  @cached_property
  def function_aliases(self) -> Mapping[str, tuple[str, ...]]:
    """Alias -> names of its graph functions, as given to `tf.saved_model.SaveOptions`."""
    aliases: dict[str, list[str]] = {}
    for function, alias in sorted(self._meta_graph.meta_info_def.function_aliases.items()):
      aliases.setdefault(alias, []).append(function)
    return {alias: tuple(functions) for alias, functions in aliases.items()}

  @property
  def default_entry(self) -> str:
    """What `convert` converts without `entry`: "serving_default", or if there is none, "default" or `__call__`."""
    have = {*self.signatures, *self.functions}
    return next((name for name in _ENTRIES if name in have), _ENTRIES[0])

  def concrete_function(self, name: str) -> ConcreteFunction:
    """Returns one concrete function, by its name in the graph's function library.

    Raises:
      DamagedSavedModelError: there is no such function, or its record is damaged.
    """
    return self._functions.concrete_function(name)

  @cached_property
  def _functions(self) -> FunctionReader:
    names = {info.node_id: name for name, info in self.variables.infos.items() if info.node_id is not None}
    return FunctionReader(self.objects, names, self.assets, self._constant, self._checkpoint_keys)

  @cached_property
  def _constants(self) -> dict[str, schema.NodeDef]:
    return {node.name: node for node in self._meta_graph.graph_def.node if node.op == "Const"}

  def _constant(self, name: str) -> Tensor:
    node = self._constants.get(name)
    if node is None or "value" not in node.attr:
      raise DamagedSavedModelError(f"{self.path}: the graph has no Const node {name!r}, which a function captures")
    try:
      return Tensor.from_proto(node.attr["value"].tensor)
    except GraftaxError as e:
      raise DamagedSavedModelError(f"{self.path}: Const node {name!r}: {e}") from e


def has_functions(objects: ObjectGraph) -> bool:
  """Returns whether objects are those of TensorFlow 2, whose functions are among them."""
  return any(isinstance(node.content, FunctionObject | BareFunctionObject) for node in objects.nodes)
