"""What a conversion returns: a function that knows its signature and its nested inputs and outputs."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from html import escape
from typing import Any

import tree

from graftax.convert._tensorflow import without_autograph
from graftax.convert.errors import ParameterError
from graftax.convert.pytrees import PyTree
from graftax.convert.structures.nested import InputStructure, OutputStructure, leaf_specs
from graftax.convert.variable import VariableSpec

__all__ = ["AnnotatedFunction"]


@dataclasses.dataclass(frozen=True, eq=False)
class AnnotatedFunction:
  """A converted function, which can be called and passed to any JAX transform.

  Attributes:
    fn: the function itself.
    inputs: the structure of its arguments.
    outputs: the structure of its results.
    name: the name of the TensorFlow function.
    doc: its docstring.
    has_params: whether `params` is its first argument.
    variables: variable name -> shape, dtype and trainability, for each of its parameters.
  """

  fn: Callable[..., Any]
  inputs: InputStructure
  outputs: OutputStructure
  name: str
  doc: str | None
  has_params: bool
  variables: Mapping[str, VariableSpec] = dataclasses.field(default_factory=dict, repr=False)

  def __post_init__(self) -> None:
    object.__setattr__(self, "__name__", self.name)
    object.__setattr__(self, "__qualname__", self.name)
    object.__setattr__(self, "__doc__", self.doc)

  @without_autograph
  def __call__(self, /, *args: PyTree, **kwargs: PyTree) -> PyTree:
    if self.has_params and not args:
      raise ParameterError(
        f"{self.name}: called without parameters; expected {self.name}(params, ...). Pass the dict that the conversion "
        f"returned together with the function, also if it is empty. convert_functional returns a function without "
        f"parameters."
      )
    return self.fn(*args, **kwargs)

  def __deepcopy__(self, memo: Any) -> "AnnotatedFunction":
    return self  # immutable

  @property
  def structured_inputs(self) -> tuple[tuple[PyTree, ...], dict[str, PyTree]]:
    """Returns `(args, kwargs)` with a `TensorSpec` for each tensor; other leaves are fixed Python values."""
    return self.inputs.args, dict(self.inputs.kwargs)

  @property
  def structured_outputs(self) -> PyTree:
    """Returns the nested result with a `TensorSpec` for each tensor."""
    return self.outputs.nested

  @property
  def rng_name(self) -> str:
    """Returns the name of the argument for the PRNG key: `rng`, or `rng_` if an input is named `rng`."""
    return self.inputs.free_name("rng")

  @property
  def signature(self) -> inspect.Signature:
    """Returns the Python signature of the TensorFlow function, without `params` and `rng`."""
    return self.inputs.signature

  def _repr_html_(self) -> str:
    """Returns what notebooks show: arguments, results and variables. Colors are those of the notebook."""
    arguments = "<br>".join(f"<code>{escape(str(spec))}</code>" for spec in self.inputs.specs)
    results = "<br>".join(f"<code>{escape(str(leaf))}</code>" for leaf in tree.flatten(self.outputs.nested))
    trained = sum(variable.trainable for variable in self.variables.values())
    rows = [("takes", arguments or "nothing"), ("returns", results or "nothing")]
    rows += [("variables", f"{len(self.variables)}, of which TensorFlow trains {trained}")] if self.variables else []
    rows += [("call", f"<code>outputs, params = {escape(self.name)}(params, ...)</code>")] if self.has_params else []
    body = "".join(f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in rows)
    name = escape(f"{self.name}{self.signature}")
    return f"<table><caption>converted function <code>{name}</code></caption>{body}</table>"

  def __repr__(self) -> str:
    given = [*map(_nested, self.inputs.args), *(f"{name}={_nested(spec)}" for name, spec in self.inputs.kwargs.items())]
    return f"<AnnotatedFunction {self.name}{self.signature}: ({', '.join(given)}) -> {_nested(self.outputs.nested)}>"


def _nested(structure: object) -> str:
  """Returns `{x: float32[?, 3], y: [int32[], None]}`."""
  if isinstance(structure, Mapping):
    return f"{{{', '.join(f'{key}: {_nested(inner)}' for key, inner in structure.items())}}}"
  if isinstance(structure, list | tuple):
    items = ", ".join(map(_nested, structure))
    return f"[{items}]" if isinstance(structure, list) else f"({items}{',' * (len(structure) == 1)})"
  specs = leaf_specs(structure)
  if len(specs) == 1:
    return str(specs[0])
  return f"{type(structure).__name__}({', '.join(map(str, specs))})" if specs else f"{structure!r:.80}"
