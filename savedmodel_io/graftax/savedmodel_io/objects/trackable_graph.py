"""Matches saved objects with checkpoint keys, by walking both graphs from the root by attribute name."""

from collections.abc import Mapping

from google.protobuf.message import DecodeError

from graftax.graphdef_ir import Budget, schema
from graftax.savedmodel_io.checkpoint.reader import CheckpointReader
from graftax.savedmodel_io.errors import DamagedCheckpointError
from graftax.savedmodel_io.files.file_budget import OBJECT_BYTES, PART_BYTES, FileBudget
from graftax.savedmodel_io.objects.object_graph import ObjectGraph

__all__ = ["OBJECT_GRAPH_KEY", "TABLE_CONTENTS", "VARIABLE_VALUE", "match_checkpoint", "read_trackable_graph"]

OBJECT_GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
VARIABLE_VALUE = "VARIABLE_VALUE"
# The key of a table that can change is the beginning of the keys of two tensors, "table-keys" and "table-values".
TABLE_CONTENTS = "table"


def read_trackable_graph(reader: CheckpointReader, budget: Budget | None = None) -> schema.TrackableObjectGraph | None:
  """Returns the object graph of an object-based checkpoint, or None for a name-based checkpoint.

  Raises:
    DamagedCheckpointError: it cannot be parsed, or refers to objects that are not there.
    LimitExceededError: it has more objects than the budget allows.
  """
  if OBJECT_GRAPH_KEY not in reader:
    return None
  value = reader.read(OBJECT_GRAPH_KEY, verify=True)
  where = f"{reader.path_prefix}: {OBJECT_GRAPH_KEY}"
  if value.shape != () or not isinstance(value[()], bytes):
    raise DamagedCheckpointError(f"{where} is {value.dtype} {value.shape}; expected one string")
  try:
    graph = schema.TrackableObjectGraph.FromString(value[()])
  except DecodeError as e:
    raise DamagedCheckpointError(f"{where} cannot be parsed: {e}") from e
  spender = FileBudget(Budget.of(budget), where, len(value[()]))
  spender.spend(OBJECT_BYTES * len(graph.nodes), f"a graph of {len(graph.nodes)} objects")
  num_parts = sum(len(node.children) + len(node.attributes) + len(node.slot_variables) for node in graph.nodes)
  spender.spend(PART_BYTES * num_parts, f"objects with {num_parts} attributes")
  for node in graph.nodes:
    targets = [child.node_id for child in node.children]
    targets += [i for slot in node.slot_variables for i in (slot.original_variable_node_id, slot.slot_variable_node_id)]
    if any(not 0 <= target < len(graph.nodes) for target in targets):
      raise DamagedCheckpointError(f"{where} refers to an object beyond the {len(graph.nodes)} there are")
  return graph


def match_checkpoint(
  objects: ObjectGraph, trackable: schema.TrackableObjectGraph | None
) -> dict[int, Mapping[str, str]]:
  """Returns saved object id -> attribute name -> checkpoint key, for objects that both sides reach by the same names.

  A variable's value is the attribute `VARIABLE_VALUE`. Where two ways lead to one object but to different checkpoint
  objects, the first one, breadth first, wins, as in TensorFlow. Nothing matches a name-based checkpoint (None).
  """
  if not objects.nodes or trackable is None or not trackable.nodes:
    return {}
  matched = {0: 0}
  _match_children(objects, trackable, matched, [0])
  _match_children(objects, trackable, matched, _match_slots(objects, trackable, matched))
  # Many saved objects may match one object of the checkpoint, whose parts are read once.
  keys = {
    target: {attribute.name: attribute.checkpoint_key for attribute in trackable.nodes[target].attributes}
    for target in set(matched.values())
    if trackable.nodes[target].attributes
  }
  return {saved: keys[target] for saved, target in matched.items() if target in keys}


def _match_children(
  objects: ObjectGraph, trackable: schema.TrackableObjectGraph, matched: dict[int, int], queue: list[int]
) -> None:
  known: dict[int, dict[str, int]] = {}
  for saved in queue:  # grows while it is walked
    targets = known.get(matched[saved])
    if targets is None:
      children = trackable.nodes[matched[saved]].children
      targets = known[matched[saved]] = {child.local_name: child.node_id for child in children}
    for name, child in objects.nodes[saved].children.items():
      if name in targets and child not in matched:
        matched[child] = targets[name]
        queue.append(child)


def _match_slots(objects: ObjectGraph, trackable: schema.TrackableObjectGraph, matched: dict[int, int]) -> list[int]:
  """Matches the variables that optimizers keep for other variables; returns the newly matched ones."""
  new: list[int] = []
  known: dict[int, dict[tuple[int, str], int]] = {}
  for saved, target in list(matched.items()):
    if not objects.nodes[saved].slot_variables:
      continue
    slots = known.get(target)
    if slots is None:
      slots = known[target] = {
        (slot.original_variable_node_id, slot.slot_name): slot.slot_variable_node_id
        for slot in trackable.nodes[target].slot_variables
      }
    for slot in objects.nodes[saved].slot_variables:
      found = slots.get((matched.get(slot.original, -1), slot.slot_name))
      if found is not None and slot.slot not in matched:
        matched[slot.slot] = found
        new.append(slot.slot)
  return new
