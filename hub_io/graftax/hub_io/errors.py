"""The errors of this package, split by what the caller can do about them.

A module that was found but cannot be read raises the errors of `graftax.savedmodel_io.errors`.
"""

import warnings

from graftax.savedmodel_io.errors import SavedModelError

__all__ = [
  "AmbiguousArchiveError",
  "ArchiveError",
  "DamagedArchiveError",
  "DamagedCacheWarning",
  "DigestError",
  "DownloadError",
  "HandleError",
  "HubError",
  "ModuleNotCachedError",
  "UnsafeArchiveError",
  "UnsafeCacheError",
  "UnsafeCacheWarning",
  "UnsupportedHubModuleError",
]


class HubError(SavedModelError):
  """A hub module could not be found, fetched or unpacked."""


class HandleError(HubError, ValueError):
  """The text is not a handle, or one of a kind that we do not read."""


class ModuleNotCachedError(HubError, FileNotFoundError):
  """The module is in none of the caches, or only a damaged copy is, and it may not be downloaded."""


class DownloadError(HubError, OSError):
  """A server could not be reached, refused, or sent something else than the module."""


class DigestError(HubError, ValueError):
  """An archive does not have the SHA-256 digest that the caller expects. Nothing of it was unpacked."""


class UnsafeCacheError(HubError, ValueError):
  """The folder of a cache belongs to somebody else, who could put other modules there."""


class ArchiveError(HubError, ValueError):
  """An archive could not be unpacked. Nothing of it is left on the disk."""


class DamagedArchiveError(ArchiveError):
  """The archive is cut off, damaged, or a file of another kind."""


class UnsafeArchiveError(ArchiveError):
  """The archive holds links, devices, paths outside of its folder, or sizes that cannot be."""


class AmbiguousArchiveError(ArchiveError):
  """The archive, or the entry of a cache, holds several SavedModels."""


class UnsupportedHubModuleError(HubError, NotImplementedError):
  """A TF1 hub module of a format, or with features, that we do not read."""


class UnsafeCacheWarning(UserWarning):
  """Other users of the machine can write to the folder of a cache, and so put other modules there."""


class DamagedCacheWarning(UserWarning):
  """A cache holds a damaged or half-written copy of a module, which is fetched again."""


def __getattr__(name: str) -> object:
  if name == "UnsupportedModuleError":
    warnings.warn(
      "graftax.hub_io.errors.UnsupportedModuleError is UnsupportedHubModuleError; graftax 0.2 no longer has the old "
      "name.",
      DeprecationWarning,
      stacklevel=2,
    )
    return UnsupportedHubModuleError
  raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
