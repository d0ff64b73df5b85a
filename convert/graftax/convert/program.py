"""What a conversion starts from, wherever it came from: a function, its library, its captures and its variables."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from graftax.convert.planning.custom_gradient import CustomGradient
from graftax.convert.structures.nested import InputStructure, OutputStructure
from graftax.convert.variable import Variable
from graftax.graphdef_ir import Function, FunctionLibrary, OpSignatures
from graftax.ops_jax import ResourceHandle

__all__ = ["Capture", "Program", "UnavailableCapture"]


@dataclasses.dataclass(frozen=True, slots=True)
class UnavailableCapture:
  """Something that a function closes over and that JAX cannot hold; an error where the function uses it.

  Attributes:
    what: what it is and what is wrong with it, such as `"table 'words' has string keys"`.
  """

  what: str


Capture = ResourceHandle | np.ndarray | UnavailableCapture


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Program:
  """A TensorFlow function with everything that it refers to.

  A live `tf.function`, a SavedModel signature and a frozen graph all become a `Program`; what follows is the same.

  Attributes:
    name: how messages and the converted function call it.
    doc: documentation for the converted function.
    function: the function. Its last `len(captures)` parameters are bound to `captures`; the others are inputs.
    library: the functions that it calls, directly or not.
    signatures: signatures of all ops in the graph.
    captures: what the function closes over: constants, or handles of variables and tables.
    variables: variable name without ":0" -> value, for every handle among the captures and `VarHandleOp` in the graph.
    gradients: registered name -> derivative, for the custom gradients in the graph.
    inputs: how it is called.
    outputs: what it returns.
    part_code: how Python code that converts a part of it begins, for messages that advise to do so.
  """

  name: str
  doc: str | None = None
  function: Function
  library: FunctionLibrary
  signatures: OpSignatures
  captures: tuple[Capture, ...] = ()
  variables: Mapping[str, Variable] = dataclasses.field(default_factory=dict)
  gradients: Mapping[str, CustomGradient] = dataclasses.field(default_factory=dict)
  inputs: InputStructure
  outputs: OutputStructure
  part_code: str = "graftax.convert.convert_subgraph(function"
