"""Programs with nodes in place of captured models of SentencePiece, which SavedModels of programs cannot hold."""

import dataclasses

from graftax.convert import Program, SentencePieceModel
from graftax.graphdef_ir import Node, TensorRef

__all__ = ["with_models_as_nodes"]


def with_models_as_nodes(program: Program) -> Program:
  """Returns the program with nodes that make the models of SentencePiece that it captures."""
  function = program.function
  start = len(function.parameters) - len(program.captures)
  pairs = list(zip(function.parameters[start:], program.captures, strict=True))
  made = [
    Node(f"{p.name}/model", "SentencepieceOp", (), attrs={"model": c.data})
    for p, c in pairs
    if isinstance(c, SentencePieceModel)
  ]
  kept = [(p, c) for p, c in pairs if not isinstance(c, SentencePieceModel)]
  renamed = {TensorRef(node.name.removesuffix("/model")): TensorRef(node.name) for node in made}
  nodes = tuple(
    dataclasses.replace(node, inputs=tuple(renamed.get(ref, ref) for ref in node.inputs)) for node in function.nodes
  )
  parameters = (*function.parameters[:start], *(p for p, _ in kept))
  return dataclasses.replace(
    program,
    function=dataclasses.replace(function, parameters=parameters, nodes=(*made, *nodes)),
    captures=tuple(c for _, c in kept),
  )
