"""Restored functions: a saved `tf.function` with its concrete functions, their structure and what they capture."""

from collections.abc import Mapping
from dataclasses import dataclass

from graftax.graphdef_ir import TensorSpec
from graftax.savedmodel_io.objects.captures import Capture
from graftax.savedmodel_io.objects.function_spec import FunctionSpec
from graftax.savedmodel_io.objects.spec_text import structure_text
from graftax.savedmodel_io.objects.structured_value import structure_specs
from graftax.savedmodel_io.pytrees import PyTree

__all__ = ["ConcreteFunction", "Resource", "RestoredFunction"]


@dataclass(frozen=True, slots=True)
class ConcreteFunction:
  """One trace of a function.

  The graph function `name` in the model's library takes the tensors of `args` and `kwargs` in flat order
  (`input_specs`), then the captures; it returns the tensors of `outputs` in flat order (`output_specs`).

  Attributes:
    name: name of the graph function in `SavedModel.graph.library`.
    args: positional arguments, with a `TensorSpec` (or a spec of `type_specs`) for each tensor; any other leaf is the
      Python value that the function was traced with. Defaults are filled in.
    kwargs: the same for keyword-only arguments.
    outputs: what it returns, with specs for tensors.
    captures: one per parameter after those of the arguments.
  """

  name: str
  args: tuple[PyTree, ...]
  kwargs: Mapping[str, PyTree]
  outputs: PyTree
  captures: tuple[Capture, ...]

  def __str__(self) -> str:
    arguments = [*map(structure_text, self.args), *(f"{k}={structure_text(v)}" for k, v in self.kwargs.items())]
    return f"({', '.join(arguments)}) -> {structure_text(self.outputs)}"

  def __repr__(self) -> str:
    captured = f", {len(self.captures)} captures" if self.captures else ""
    return f"<ConcreteFunction {self.name}: {self}{captured}>"

  @property
  def input_specs(self) -> tuple[TensorSpec, ...]:
    """The tensors it takes, in order, without the captures."""
    return structure_specs((self.args, dict(self.kwargs)))

  @property
  def output_specs(self) -> tuple[TensorSpec, ...]:
    """The tensors it returns, in order."""
    return structure_specs(self.outputs)


@dataclass(frozen=True, slots=True)
class RestoredFunction:
  """A saved `tf.function`.

  Attributes:
    path: attribute path from the saved object, such as `"layers.0.call"`.
    spec: its Python signature; None for a concrete function that was saved by itself.
    concrete_functions: its traces, in the order in which they were saved.
  """

  path: str
  spec: FunctionSpec | None
  concrete_functions: tuple[ConcreteFunction, ...]

  def __repr__(self) -> str:
    signature = "(...)" if self.spec is None else str(self.spec.signature)
    traces = "1 trace" if len(self.concrete_functions) == 1 else f"{len(self.concrete_functions)} traces"
    return f"<RestoredFunction {self.path}{signature}: {traces}>"


@dataclass(frozen=True, slots=True)
class Resource:
  """A table or another resource that functions capture.

  Attributes:
    name: attribute path to it; captures refer to it by this name.
    create: makes the empty resource: takes nothing, returns its handle.
    initialize: fills it: takes nothing, captures the handle and the contents. None if it needs no filling.
    checkpoint_keys: where the checkpoint holds its contents, by TensorFlow's name for them, for resources that change.
      Of a `MutableHashTable`, the tensors `key + "-keys"` and `key + "-values"`.
  """

  name: str
  create: ConcreteFunction | None
  initialize: ConcreteFunction | None
  checkpoint_keys: Mapping[str, str]
