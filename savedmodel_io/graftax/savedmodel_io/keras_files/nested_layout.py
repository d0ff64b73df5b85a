"""The layout of Keras 3, and of the `.keras` files of Keras 2.12 and later: groups as objects hold each other.

The weights of an object are the datasets "0", "1", ... in its group `vars`.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from graftax.savedmodel_io.keras_files.h5_file import Group, Walk, children, name_attribute
from graftax.savedmodel_io.keras_files.variable_names import snake_case, variable_names

__all__ = ["read_nested_layout"]

_WEIGHTS = "vars"
# Groups that hold the layers of a model. The second is of Keras 2.
_CONTAINERS = ("layers", "_layer_checkpoint_dependencies")
# What a compiled model has besides its layers.
_TRAINING = ("optimizer", "metrics", "compile_metrics", "loss_tracker", "compile_loss")
# Groups whose class is not their name: the cell of a recurrent layer, and the sublayers of attention.
_CELL = "cell"
_DENSE_SUFFIX = "_dense"

# Any in this module: a Keras config is nested JSON of Keras's making.


def read_nested_layout(file: Group, config: Mapping[str, Any]) -> Iterator[tuple[str, np.ndarray]]:
  """Yields names and values of all weights, without those of the optimizer and of metrics.

  A name consists of the names of the layers, as far as the file or `config` has them, and of the weight.

  Args:
    file: the file.
    config: the model's configuration in a `.keras` archive; {} if there is none.
  """
  yield from _object(file, (), "", config, Walk(), 0)


def _object(
  group: Group, path: tuple[str, ...], kind: str, config: Mapping[str, Any], walk: Walk, depth: int
) -> Iterator[tuple[str, np.ndarray]]:
  """Yields the weights of an object and of what it holds."""
  walk.enter(group, depth)
  for key, value in children(group):
    if not hasattr(value, "keys"):
      continue
    if key == _WEIGHTS:
      yield from _weights(value, path, kind, walk)
    elif key in _CONTAINERS:
      configs = _layer_configs(config)
      for name, layer in children(value):
        own = configs.get(name, {})
        label = _label(layer, own.get("name"), name)
        yield from _object(layer, (*path, label), name, own, walk, depth + 2)
    elif path or key.removeprefix("_") not in _TRAINING:
      label = _label(value, None, key)
      yield from _object(value, (*path, label), _kind(kind, key, label), {}, walk, depth + 1)


def _weights(group: Group, path: tuple[str, ...], kind: str, walk: Walk) -> Iterator[tuple[str, np.ndarray]]:
  arrays = {key: walk.read(value) for key, value in children(group)}
  if set(arrays) == {str(i) for i in range(len(arrays))}:
    names = dict(zip(sorted(arrays, key=int), variable_names(kind, len(arrays)), strict=True))
  else:
    names = {key: key for key in arrays}  # layers may store their weights under names of their own
  for key, array in arrays.items():
    yield "/".join((*path, names[key])), array


def _label(group: Group, configured: Any, key: str) -> str:
  """Returns the name of a layer: the one that Keras 3.10 and later store, that of the configuration, or the group's."""
  stored = name_attribute(group[_WEIGHTS]) if _WEIGHTS in group else None
  return stored or (configured if isinstance(configured, str) else key)


def _kind(parent: str, key: str, label: str) -> str:
  """Returns the class of an object that a layer holds, in snake case, or what may not be a class."""
  if key == _CELL:
    return label if label != key else re.sub(r"(_\d+)?$", f"_{_CELL}", parent, count=1)
  return "einsum_dense" if key.endswith(_DENSE_SUFFIX) else key


def _layer_configs(config: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
  """Returns group name -> configuration of a layer: groups are named after classes, in the order of the layers."""
  layers = config.get("layers")
  found: dict[str, Mapping[str, Any]] = {}
  counts: Counter[str] = Counter()
  for layer in layers if isinstance(layers, list) else ():
    own = layer.get("config") if isinstance(layer, dict) else None
    class_name = layer.get("class_name") if isinstance(layer, dict) else None
    if isinstance(class_name, str) and isinstance(own, dict):
      kind = snake_case(class_name)
      found[f"{kind}_{counts[kind]}" if counts[kind] else kind] = own
      counts[kind] += 1
  return found
