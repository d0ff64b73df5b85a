"""Makes a `Program` of a GraphDef, such as a frozen graph."""

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
from jax.typing import ArrayLike

from graftax.convert.errors import ConversionError
from graftax.convert.program import Program
from graftax.convert.shown_names import shown
from graftax.convert.structures.nested import InputStructure, OutputStructure
from graftax.convert.subgraph import TensorNames, cut
from graftax.convert.tables.graph_tables import with_tables
from graftax.convert.variable import Variable, variable_name
from graftax.graphdef_ir import Function, Graph, ModelFolder, Node, traits_of, validate_nodes

__all__ = ["program_from_graph_def"]


def program_from_graph_def(
  graph: Graph,
  inputs: TensorNames | None,
  outputs: TensorNames | None,
  *,
  variables: Mapping[str, ArrayLike] | None = None,
  name: str = "graph",
  folder: ModelFolder | None = None,
) -> Program:
  """Returns a program that computes some tensors of a graph from others.

  Args:
    graph: the graph.
    inputs: names of the tensors to feed: one name, a list for positional arguments, or a dict from argument name to
      tensor name.
    outputs: names of the tensors to fetch, in the same form.
    variables: values of the graph's variables by name; not needed if the graph is frozen.
    name: the name of the program, also used in messages.
    folder: the files that the graph may read; by default none.

  Raises:
    ConversionError: inputs or outputs are not given, there are no such tensors, or a variable has no value.
    GraphError: a node of the graph is not well-formed.
  """
  if inputs is None or outputs is None:
    raise ConversionError(
      f"{name}: pass inputs=[...] and outputs=[...], names of tensors of the graph. Its placeholders are "
      f"{shown([node.name for node in graph.nodes if _can_be_fed(node)])}; nothing reads "
      f"{shown(_ends(graph))}."
    )
  # The program holds only what the outputs need of it.
  validate_nodes(graph)
  whole = Program(
    name=name,
    function=Function(name, (), (), graph.nodes),
    library=graph.library,
    signatures=graph.signatures,
    is_validated=True,
    inputs=InputStructure((), {}, inspect.Signature()),
    outputs=OutputStructure(()),
    part_code=f"graftax.convert.convert(graph, outputs={_listed(outputs)!r}",
    folder=ModelFolder.of(None) if folder is None else folder,
  )
  return _with_variables(cut(with_tables(whole), inputs, outputs), variables or {})


def _listed(names: TensorNames) -> Any:
  return dict(names) if isinstance(names, Mapping) else names if isinstance(names, str) else list(names)


def _ends(graph: Graph) -> list[str]:
  read = {ref.node for node in graph.nodes for ref in node.inputs}
  return [node.name for node in graph.nodes if node.name not in read and _has_results(node, graph)]


def _can_be_fed(node: Node) -> bool:
  traits = traits_of(node.op)
  return traits.makes == "placeholder" or traits.default_input


def _has_results(node: Node, graph: Graph) -> bool:
  signature = graph.signatures.get(node.op)
  return node.op != "Const" and (signature is None or bool(signature.outputs))


def _with_variables(program: Program, given: Mapping[str, ArrayLike]) -> Program:
  names = [variable_name(node) for node in program.function.nodes if traits_of(node.op).makes == "variable"]
  missing = [name for name in names if name not in given]
  if missing:
    raise ConversionError(
      f"{program.name}: the graph is not frozen; pass variables={{name: array}} with values for {shown(missing)}, or "
      f"convert the SavedModel or hub module that holds them."
    )
  variables = {name: Variable(np.asarray(given[name]), f"{name}:0") for name in dict.fromkeys(names)}
  return dataclasses.replace(program, variables=variables)
