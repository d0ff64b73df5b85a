"""Which model on Kaggle a tfhub.dev handle became.

tfhub.dev redirects to Kaggle, where models have other names, and where the versions of each format are counted from 1.
For example, "google/imagenet/resnet_v2_50/feature_vector/5" became
"google/resnet-v2/tensorFlow2/50-feature-vector/2", which follows no rule.
The table `kaggle_names.txt` has those whose redirect is published. Others are downloaded from tfhub.dev, as
tensorflow_hub does.
"""

import importlib.resources
from functools import cache

__all__ = ["kaggle_name"]


def kaggle_name(tfhub_name: str) -> str | None:
  """Returns the Kaggle name of a TF-Hub model, or None if the table does not have it.

  Example:
      >>> kaggle_name("google/yamnet/1")
      'google/yamnet/tensorFlow2/yamnet/1'
  """
  return _table().get(tfhub_name)


@cache
def _table() -> dict[str, str]:
  text = importlib.resources.files("graftax.hub_io").joinpath("kaggle_names.txt").read_text(encoding="utf-8")
  table = {}
  for line in text.splitlines():
    if not line.startswith("#"):
      tfhub, kaggle = line.split()
      table[tfhub] = kaggle
  return table
