"""The layout of Keras 3, and of the `.keras` files of Keras 2.12 and later: groups as objects hold each other.

The weights of an object are the datasets "0", "1", ... in its group `vars`. Of sharded weights each file has some of
the groups, and a group may be split over two files. So an object is here a list of groups: those at its path.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from graftax.savedmodel_io.errors import DamagedWeightsError
from graftax.savedmodel_io.keras_files.h5_file import Group, Walk, name_attribute
from graftax.savedmodel_io.keras_files.variable_names import has_names, snake_case, variable_names
from graftax.savedmodel_io.pytrees import Json

__all__ = ["read_nested_layout"]

_WEIGHTS = "vars"
# Groups that hold the layers of a model. The second is of Keras 2.
_CONTAINERS = ("layers", "_layer_checkpoint_dependencies")
# What a compiled model has besides its layers.
_TRAINING = ("optimizer", "metrics", "compile_metrics", "loss_tracker", "compile_loss")
# Groups whose class is not their name: the cell of a recurrent layer, and the sublayers of attention.
_CELL = "cell"
_DENSE_SUFFIX = "_dense"


def read_nested_layout(
  files: Sequence[Group], config: Mapping[str, Json], walk: Walk
) -> Iterator[tuple[str, np.ndarray]]:
  """Yields names and values of all weights, without those of the optimizer and of metrics.

  A name consists of the names of the layers, as far as the files or `config` have them, and of the weight.

  Args:
    files: the file, or all files of sharded weights.
    config: the model's configuration in a `.keras` archive; {} if there is none.
    walk: reads the datasets.

  Raises:
    DamagedWeightsError: a weight is not a dataset of numbers, or is in two files.
    UnsafeWeightsError: a file refers to other files, has too many groups, or claims to hold more than it does.
  """
  yield from _object(files, (), "", config, walk, 0)


def _object(
  groups: Sequence[Group], path: tuple[str, ...], kind: str, config: Mapping[str, Json], walk: Walk, depth: int
) -> Iterator[tuple[str, np.ndarray]]:
  """Yields the weights of an object and of what it holds."""
  for group in groups:
    walk.enter(group, depth)
  for key, values in _subgroups(groups, walk).items():
    if key == _WEIGHTS:
      yield from _weights(values, path, kind, walk)
    elif key in _CONTAINERS:
      configs = _layer_configs(config)
      for name, layer in _subgroups(values, walk).items():
        own = configs.get(name, {})
        label = _label(layer, own.get("name"), name)
        yield from _object(layer, (*path, label), name, own, walk, depth + 2)
    elif path or key.removeprefix("_") not in _TRAINING:
      label = _label(values, None, key)
      wrapped = _wrapped_layer(config, key)
      class_name = snake_case(wrapped["class_name"]) if wrapped else _kind(kind, key, label)
      own = wrapped["config"] if wrapped else {}
      yield from _object(values, (*path, label), class_name, own, walk, depth + 1)


def _subgroups(groups: Sequence[Group], walk: Walk) -> dict[str, list[Group]]:
  """Returns what lies in the groups of an object, without datasets, in the order of the names."""
  found: dict[str, list[Group]] = {}
  for group in groups:
    for key, value in walk.children(group):
      if hasattr(value, "keys"):
        found.setdefault(key, []).append(value)
  return dict(sorted(found.items()))


def _weights(groups: Sequence[Group], path: tuple[str, ...], kind: str, walk: Walk) -> Iterator[tuple[str, np.ndarray]]:
  arrays: dict[str, np.ndarray] = {}
  for group in groups:
    for key, value in walk.children(group):
      if key in arrays:
        raise DamagedWeightsError(f"weight {key!r} of {group.name!r} is in two files")
      arrays[key] = walk.read(value)
  if set(arrays) == {str(i) for i in range(len(arrays))}:
    is_quantized = bool(arrays) and arrays["0"].dtype in (np.int8, np.uint8)
    names = dict(zip(sorted(arrays, key=int), variable_names(kind, len(arrays), quantized=is_quantized), strict=True))
  else:
    names = {key: key for key in arrays}  # layers may store their weights under names of their own
  for key, array in arrays.items():
    yield "/".join((*path, names[key])), array


def _label(groups: Sequence[Group], configured: Json, key: str) -> str:
  """Returns the name of a layer: as Keras 3.10 and later store it, else from the configuration, else from the group."""
  stored = [name for group in groups if _WEIGHTS in group and (name := name_attribute(group[_WEIGHTS]))]
  return stored[0] if stored else configured if isinstance(configured, str) else key


def _kind(parent: str, key: str, label: str) -> str:
  """Returns the class of an object that a layer holds, in snake case, or what may not be a class."""
  if key == _CELL:
    return label if label != key else re.sub(r"(_\d+)?$", f"_{_CELL}", parent, count=1)
  if key.endswith(_DENSE_SUFFIX):
    return "einsum_dense"
  # The key may be the name of an attribute. A layer without a name of the user is named after its class.
  return key if has_names(key) or not has_names(label) else label


def _wrapped_layer(config: Mapping[str, Json], key: str) -> Mapping[str, Json] | None:
  """Returns the class and the configuration of the layer at an attribute of a wrapper, such as TimeDistributed."""
  options = {"layer": ("layer",), "forward_layer": ("layer",), "backward_layer": ("backward_layer", "layer")}
  for name in options.get(key, ()):
    layer = config.get(name)
    if isinstance(layer, dict) and isinstance(layer.get("class_name"), str) and isinstance(layer.get("config"), dict):
      return layer
  return None


def _layer_configs(config: Mapping[str, Json]) -> dict[str, Mapping[str, Json]]:
  """Returns group name -> configuration of a layer: groups are named after classes, in the order of the layers."""
  layers = config.get("layers")
  found: dict[str, Mapping[str, Json]] = {}
  counts: Counter[str] = Counter()
  for layer in layers if isinstance(layers, list) else ():
    own = layer.get("config") if isinstance(layer, dict) else None
    class_name = layer.get("class_name") if isinstance(layer, dict) else None
    if isinstance(class_name, str) and isinstance(own, dict):
      kind = snake_case(class_name)
      found[f"{kind}_{counts[kind]}" if counts[kind] else kind] = own
      counts[kind] += 1
  return found
