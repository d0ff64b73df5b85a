"""Builds small programs from graph dataclasses, for tests without TensorFlow."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graftax.convert import InputStructure, OutputStructure, Program, Variable
from graftax.graphdef_ir import (
  DType,
  Function,
  FunctionLibrary,
  Node,
  OpSignatures,
  Parameter,
  PartialShape,
  Result,
  Tensor,
  TensorRef,
  TensorSpec,
)
from graftax.ops_jax import ResourceHandle

__all__ = ["const", "function", "node", "program"]


def node(name: str, op: str, *inputs: str, control: Sequence[str] = (), **attrs: Any) -> Node:
  """Returns a node whose inputs are written `"x"` or `"x:1"`."""
  return Node(name, op, tuple(map(TensorRef.parse, inputs)), tuple(control), attrs)


def const(name: str, value: Any) -> Node:
  """Returns a Const node."""
  array = np.asarray(value)
  dtype = DType.from_numpy(array.dtype)
  return node(name, "Const", value=Tensor.from_numpy(array), dtype=dtype)


def function(
  name: str,
  parameters: Sequence[str],
  nodes: Sequence[Node],
  results: Sequence[str],
  control_results: Sequence[str] = (),
) -> Function:
  """Returns a function of float parameters; a parameter written `"*v"` is a resource."""
  return Function(
    name,
    tuple(Parameter(p.lstrip("*"), DType.RESOURCE if p[0] == "*" else DType.FLOAT) for p in parameters),
    tuple(Result(f"r{i}", TensorRef.parse(ref), DType.FLOAT) for i, ref in enumerate(results)),
    tuple(nodes),
    tuple(control_results),
  )


def program(root: Function, library: Sequence[Function] = (), variables: Mapping[str, float] | None = None) -> Program:
  """Returns a program that runs `root`. Its resource parameters come last and are bound to `variables` in order."""
  variables = variables or {}
  inputs = [p.name for p in root.parameters if p.dtype is not DType.RESOURCE]
  scalar = TensorSpec(PartialShape(None), DType.FLOAT)
  parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in inputs]
  return Program(
    name=root.name,
    function=root,
    library=FunctionLibrary({f.name: f for f in library}),
    signatures=OpSignatures(),
    captures=tuple(ResourceHandle(name) for name in variables),
    variables={name: Variable(np.asarray(value, np.float32), f"{name}:0") for name, value in variables.items()},
    inputs=InputStructure((scalar,) * len(inputs), {}, inspect.Signature(parameters)),
    outputs=OutputStructure(tuple(scalar for _ in root.results)),
  )
