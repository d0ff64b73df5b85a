"""Which model on Kaggle a tfhub.dev handle became.

tfhub.dev redirects to Kaggle, where models have other names and versions of their own, so there is no rule. The table
`kaggle_names.txt` lists models that people name often. Others are downloaded from tfhub.dev, which still serves them.
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
