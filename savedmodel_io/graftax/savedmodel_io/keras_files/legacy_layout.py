"""The layout of Keras 2, which Keras 3 still writes to `.h5`: a group for each layer, with the names of its weights."""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from graftax.savedmodel_io.errors import DamagedWeightsError
from graftax.savedmodel_io.keras_files.h5_file import Group, Walk, attribute_texts, child

__all__ = ["is_legacy_layout", "read_legacy_layout"]

_MODEL = "model_weights"
_LAYERS = "layer_names"
_WEIGHTS = "weight_names"
# Weights of the model itself, in a group that is in no list.
_TOP_LEVEL = "top_level_model_weights"


def is_legacy_layout(file: Group) -> bool:
  """Returns whether a file has this layout: of weights alone, or of a whole model."""
  return _MODEL in file or attribute_texts(file, _LAYERS) is not None


def read_legacy_layout(file: Group, walk: Walk) -> Iterator[tuple[str, np.ndarray]]:
  """Yields names, without ":0", and values of all weights, without those of the optimizer.

  A name that several layers have, such as "kernel:0", gets the name of the layer before it.

  Raises:
    DamagedWeightsError: a list of names or a weight is missing.
    UnsafeWeightsError: the file refers to other files, or claims to hold more than it does.
  """
  model = child(file, _MODEL) if _MODEL in file else file
  layers = attribute_texts(model, _LAYERS)
  if layers is None:
    raise DamagedWeightsError(f"{model.name!r} has no attribute {_LAYERS!r}")
  entries = []
  for layer in [*layers, *([_TOP_LEVEL] if _TOP_LEVEL in model and _TOP_LEVEL not in layers else [])]:
    group = child(model, layer)
    names = attribute_texts(group, _WEIGHTS)
    if names is None:
      raise DamagedWeightsError(f"{group.name!r} has no attribute {_WEIGHTS!r}")
    entries += [(layer, name, group) for name in names]
  plain = [name.removesuffix(":0") for _, name, _ in entries]
  counts = Counter(plain)
  for (layer, name, group), short in zip(entries, plain, strict=True):
    yield f"{layer}/{short}" if counts[short] > 1 else short, walk.read(child(group, name))
