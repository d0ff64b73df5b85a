"""What a conversion returns: a function that knows its signature and its nested inputs and outputs."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import tree

from graftax.convert._tensorflow import without_autograph
from graftax.convert.structures.nested import InputStructure, OutputStructure

__all__ = ["AnnotatedFunction"]

# Any in this module: the converted function takes and returns the caller's own nested structures.


@dataclasses.dataclass(frozen=True, eq=False)
class AnnotatedFunction:
  """A converted function: call it, or hand it to any JAX transform.

  Attributes:
    fn: the function itself.
    inputs: how it is called.
    outputs: what it returns.
    name: TensorFlow's name for it.
    doc: its documentation.
    has_params: whether `params` is its first argument.
  """

  fn: Callable[..., Any]
  inputs: InputStructure
  outputs: OutputStructure
  name: str
  doc: str | None
  has_params: bool

  def __post_init__(self) -> None:
    object.__setattr__(self, "__name__", self.name)
    object.__setattr__(self, "__qualname__", self.name)
    object.__setattr__(self, "__doc__", self.doc)

  @without_autograph
  def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
    return self.fn(*args, **kwargs)

  def __deepcopy__(self, memo: Any) -> "AnnotatedFunction":
    return self  # nothing in it changes

  @property
  def structured_inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """`(args, kwargs)` with a `TensorSpec` for each tensor; any other leaf is the Python value it was traced with."""
    return self.inputs.args, dict(self.inputs.kwargs)

  @property
  def structured_outputs(self) -> Any:
    """The nested result with a `TensorSpec` for each tensor."""
    return self.outputs.nested

  @property
  def rng_name(self) -> str:
    """What the argument for random numbers is called: `rng`, or `rng_` where an input has that name already."""
    return self.inputs.free_name("rng")

  @property
  def signature(self) -> inspect.Signature:
    """The Python signature of the TensorFlow function, without `params` and `rng`."""
    return self.inputs.signature

  def __repr__(self) -> str:
    specs = ", ".join(str(spec) for spec in self.inputs.specs)
    results = ", ".join(str(leaf) for leaf in tree.flatten(self.outputs.nested))
    return f"<AnnotatedFunction {self.name}{self.signature}: ({specs}) -> ({results})>"
