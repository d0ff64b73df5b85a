"""`Program`, the input of a conversion: a TensorFlow function with its library, captures and variables."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from graftax.convert.shown_names import shown
from graftax.convert.structures.nested import InputStructure, OutputStructure
from graftax.convert.variable import PlacedVariable, Variable
from graftax.graphdef_ir import (
  Function,
  FunctionLibrary,
  ModelFolder,
  OpSignatures,
  TensorRef,
  UnsafeFileError,
  validate_reachable,
)
from graftax.ops_jax import ResourceHandle

__all__ = [
  "Capture",
  "CapturedTensor",
  "CustomGradient",
  "GradientCapture",
  "HostCapture",
  "LateGradients",
  "Program",
  "SentencePieceModel",
  "StringTable",
  "StringVariable",
  "UnavailableCapture",
  "UnsafeCapture",
  "validated",
]


@dataclasses.dataclass(frozen=True, slots=True)
class UnavailableCapture:
  """A capture that JAX cannot hold. Conversion fails only if a node that must run reads it.

  Attributes:
    what: what it is and why JAX cannot hold it, such as `"table 'words' has string keys"`.
  """

  what: str


@dataclasses.dataclass(frozen=True, slots=True)
class UnsafeCapture(UnavailableCapture):
  """A table in a file that the model may not read.

  Attributes:
    error: is raised if a node that must run reads the table.
  """

  error: UnsafeFileError


@dataclasses.dataclass(frozen=True, slots=True)
class HostCapture(UnavailableCapture):
  """A capture that JAX cannot hold, but the host's part of a split program can."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class StringTable(HostCapture):
  """A table whose keys or values are strings, so JAX cannot hold it. A SavedModel can.

  Attributes:
    name: the name of the table in messages.
    keys: `[n, ...]`.
    values: `[n, ...]`.
    maker: the op that makes the table in TensorFlow. It decides whether the table can change there.
  """

  name: str
  keys: np.ndarray
  values: np.ndarray
  maker: str = "HashTableV2"


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class StringVariable(HostCapture):
  """A variable of strings, so JAX cannot hold it.

  Attributes:
    value: the strings, `bytes` in an array of dtype object.
  """

  value: np.ndarray


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SentencePieceModel(HostCapture):
  """A resource of TensorFlow Text that splits text into pieces.

  Attributes:
    data: the serialized model of SentencePiece.
  """

  data: bytes


Capture = ResourceHandle | np.ndarray | UnavailableCapture
"""What a program captures: a variable or table, a constant, or an object that cannot be read."""


@dataclasses.dataclass(frozen=True, slots=True)
class CapturedTensor:
  """A tensor of the forward pass: output `ref` in the body of `function`.

  Attributes:
    function: name of the function in the library.
    ref: the tensor.
    copies: `(function, ref)` of the same tensor in each function of the library whose body is a copy.
  """

  function: str
  ref: TensorRef
  copies: tuple[tuple[str, TensorRef], ...] = ()


GradientCapture = CapturedTensor | ResourceHandle | np.ndarray | UnavailableCapture
"""What a gradient function captures; an object that cannot be read is an error when a derivative reads it."""


@dataclasses.dataclass(frozen=True, slots=True)
class CustomGradient:
  """The derivative of one IdentityN node.

  Attributes:
    function: name of the gradient function in the library; its parameters are the cotangents of the node's outputs
      whose `takes` is true, then the captures.
    takes: for each output of the node, whether the gradient function has a parameter for its cotangent.
    results: for each input of the node, which result of the gradient function is its cotangent, or None for zero.
    captures: the values that the gradient function closes over.
  """

  function: str
  takes: tuple[bool, ...]
  results: tuple[int | None, ...]
  captures: tuple[GradientCapture, ...]


class LateGradients(Mapping[str, CustomGradient]):
  """Custom gradients that are made, and their functions validated, when they are looked up. Iterating makes all."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Program:
  """A TensorFlow function with everything that it refers to.

  A live `tf.function`, a SavedModel signature and a frozen graph each become a `Program`, and `convert_program`
  converts any of them.

  Attributes:
    name: the name of the converted function, also used in messages.
    doc: documentation for the converted function.
    function: the function. Its last `len(captures)` parameters are bound to `captures`; the others are inputs.
    library: the functions that it calls, directly or through others.
    signatures: signatures of all ops in the graph.
    captures: the values that the function closes over: constants, and handles of variables and tables.
    variables: variable name without ":0" -> value, for every variable handle in the captures and every `VarHandleOp`
      in the graph.
    gradients: registered name -> gradient function, for the custom gradients in the graph, and in gradient functions.
    inputs: the structure of its arguments.
    outputs: the structure of its results.
    part_code: the beginning of Python code that converts a part of it. Error messages that suggest this complete it.
    folder: the files that nodes which run on the host may read; by default none.
    is_validated: whether all nodes were validated when the graph was read. If not, the conversion does it.
  """

  name: str
  doc: str | None = None
  function: Function
  library: FunctionLibrary
  signatures: OpSignatures
  captures: tuple[Capture, ...] = ()
  variables: Mapping[str, Variable | PlacedVariable] = dataclasses.field(default_factory=dict)
  gradients: Mapping[str, CustomGradient] = dataclasses.field(default_factory=dict)
  inputs: InputStructure
  outputs: OutputStructure
  part_code: str = "graftax.convert.convert_subgraph(function"
  folder: ModelFolder = ModelFolder()
  is_validated: bool = False

  def __repr__(self) -> str:
    return (
      f"Program({self.name!r}, {len(self.function.nodes)} nodes, {len(self.library.known())} functions, "
      f"{len(self.variables)} variables {shown(self.variables)})"
    )


def validated(program: Program) -> Program:
  """Returns a program whose nodes were all validated, those of gradients included.

  Raises:
    GraphError: a node, or a function that is called, is not well-formed.
  """
  if program.is_validated:
    return program
  made = {} if isinstance(program.gradients, LateGradients) else program.gradients
  gradients = [gradient.function for gradient in made.values()]
  validate_reachable(program.function, program.library, program.signatures, gradients)
  return dataclasses.replace(program, is_validated=True)
