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
  """Returns a node whose inputs are written `"x"` or `"x:1"`.

  Args:
    name: the node's name.
    op: TensorFlow's op name. It is not checked, nor are inputs and attributes.
    *inputs: refs of tensors as text, with parameters of the function among them.
    control: names of nodes that run before.
    **attrs: attributes as `Node` has them: a `DType` for a type, a `FunctionRef` for a function.

  Example:
    >>> node("y", "Add", "x", "split:1").inputs
    (TensorRef(node='x', index=0), TensorRef(node='split', index=1))
  """
  return Node(name, op, tuple(map(TensorRef.parse, inputs)), tuple(control), attrs)


def const(name: str, value: Any) -> Node:
  """Returns a Const node.

  Args:
    name: the node's name.
    value: what `np.asarray` takes. Give dtypes: a Python float is float64, an integer int64.

  Example:
    >>> const("one", np.float32(1)).attrs["dtype"].name
    'FLOAT'
  """
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
  """Returns a function of float32 parameters and results; a parameter written `"*v"` is a resource.

  Args:
    name: the function's name.
    parameters: names, those of resources last.
    nodes: the body, in any order.
    results: refs of tensors as text. The results are named r0, r1, ...
    control_results: names of nodes that run for their effects.

  Example:
    >>> double = function("double", ["x"], [node("y", "Add", "x", "x", T=DType.FLOAT)], ["y"])
    >>> [result.name for result in double.results]
    ['r0']
  """
  return Function(
    name,
    tuple(Parameter(p.lstrip("*"), DType.RESOURCE if p[0] == "*" else DType.FLOAT) for p in parameters),
    tuple(Result(f"r{i}", TensorRef.parse(ref), DType.FLOAT) for i, ref in enumerate(results)),
    tuple(nodes),
    tuple(control_results),
  )


def program(root: Function, library: Sequence[Function] = (), variables: Mapping[str, float] | None = None) -> Program:
  """Returns a program that runs `root`. Its resource parameters come last and are bound to `variables` in order.

  Args:
    root: the function to run; its inputs and results have unknown shapes.
    library: the functions that it calls.
    variables: the values of its resource parameters by variable name, in the order of the parameters; float32.

  Example:
    >>> from graftax.convert import convert_program
    >>> root = function("double", ["x"], [node("y", "Add", "x", "x", T=DType.FLOAT)], ["y"])
    >>> fn, params = convert_program(program(root))
    >>> float(fn(params, 2.0)[0][0])
    4.0
  """
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
