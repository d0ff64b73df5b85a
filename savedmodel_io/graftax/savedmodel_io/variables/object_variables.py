"""The variables of an object-based SavedModel, matched to its checkpoint."""

from collections.abc import Mapping

from graftax.savedmodel_io.checkpoint.reader import CheckpointReader
from graftax.savedmodel_io.objects.object_graph import ObjectGraph, VariableObject
from graftax.savedmodel_io.objects.trackable_graph import VARIABLE_VALUE
from graftax.savedmodel_io.variables.variables import VariableInfo, with_unique_names

__all__ = ["read_object_variables"]

# Lists of a model that Keras 3 exported or Keras 2 saved. A frozen layer does not change its variables, which still say
# that TensorFlow trains them.
_TRAINED, _ALL = "trainable_variables", ("variables", "non_trainable_variables")
_KEY_SUFFIX = f"/.ATTRIBUTES/{VARIABLE_VALUE}"


def read_object_variables(
  objects: ObjectGraph, reader: CheckpointReader | None, checkpoint_keys: Mapping[int, Mapping[str, str]]
) -> list[VariableInfo]:
  """Returns all variables of the object graph, in its order, with unique names and their checkpoint keys.

  Args:
    objects: the object graph.
    reader: the model's checkpoint, or None if the model has none.
    checkpoint_keys: what `match_checkpoint` found.
  """
  infos = []
  frozen = _frozen(objects)
  for node in objects.nodes:
    if not isinstance(node.content, VariableObject):
      continue
    variable = node.content
    key = checkpoint_keys.get(node.id, {}).get(VARIABLE_VALUE)
    infos.append(
      VariableInfo(
        name="",
        tf_name=variable.name,
        dtype=variable.dtype,
        shape=variable.shape,
        trainable=variable.trainable and node.id not in frozen,
        path=objects.path(node.id),
        node_id=node.id,
        checkpoint_key=key if key is not None else _key_by_name(variable.name, reader),
      )
    )
  captured = {node_id for function in objects.concrete_functions.values() for node_id in function.bound_inputs}
  return with_unique_names(infos, first=captured)


def _frozen(objects: ObjectGraph) -> set[int]:
  """Returns the variables that the root lists among its variables, and not among those that it trains."""
  root = objects.nodes[0].children if objects.nodes else {}
  lists = [{*objects.nodes[root[name]].children.values()} for name in (_TRAINED, *_ALL) if name in root]
  return set().union(*lists[1:]) - lists[0] if _TRAINED in root else set()


def _key_by_name(name: str, reader: CheckpointReader | None) -> str | None:
  """Returns the key under which name-based checkpoints hold a variable."""
  if reader is None or not name:
    return None
  return next((key for key in (name, name + _KEY_SUFFIX) if key in reader), None)
