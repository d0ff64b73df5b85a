"""The budget of a load, for what one file of it asks for: `FileBudget`, `spend_objects`.

A record of two bytes becomes an object of hundreds, and of thousands of them each takes time, too.
"""

from dataclasses import dataclass

from graftax.graphdef_ir import Budget, schema

__all__ = ["OBJECT_BYTES", "PART_BYTES", "FileBudget", "spend_objects"]

OBJECT_BYTES = 1000
"""What an object with its parts takes in memory, about."""

PART_BYTES = 300
"""What a part of one takes, such as an attribute."""


@dataclass(frozen=True, slots=True)
class FileBudget:
  """The budget of a load, and a file that spends from it.

  Attributes:
    budget: the budget.
    path: the file, or its folder, for messages.
    size_bytes: the size of the file.
  """

  budget: Budget
  path: str
  size_bytes: int

  def spend(self, num_bytes: int, what: str) -> None:
    """Spends the memory that a part of the file will take.

    Raises:
      LimitExceededError: it is too much for a file of this size.
    """
    self.budget.spend_unpacked_bytes(num_bytes, self.size_bytes, f"{self.path}: {what}")


def spend_objects(meta_graph: schema.MetaGraphDef, budget: FileBudget) -> None:
  """Spends what the nodes, functions, objects and signatures of a MetaGraph will take, before they are made.

  Raises:
    LimitExceededError: there are too many for a file of this size.
  """
  graph, objects, info = meta_graph.graph_def, meta_graph.object_graph_def, meta_graph.meta_info_def
  for what, count in (
    ("nodes", len(graph.node)),
    ("functions", len(graph.library.function)),
    ("saved objects", len(objects.nodes)),
    ("concrete functions", len(objects.concrete_functions)),
    ("signatures", len(meta_graph.signature_def)),
    ("collections", len(meta_graph.collection_def)),
    ("assets", len(meta_graph.asset_file_def)),
    ("ops", len(info.stripped_op_list.op)),
    ("tags", len(info.tags)),
    ("aliases of functions", len(info.function_aliases)),
  ):
    budget.spend(count * OBJECT_BYTES, f"a model with {count} {what}")
  num_nodes = sum(len(function.node_def) for function in graph.library.function)
  num_parts = sum(len(node.children) + len(node.slot_variables) for node in objects.nodes)
  budget.spend(num_nodes * OBJECT_BYTES, f"a model with {num_nodes} nodes in functions")
  budget.spend(num_parts * PART_BYTES, f"a model with {num_parts} attributes of saved objects")
