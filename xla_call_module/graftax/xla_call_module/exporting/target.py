"""`Target`: what the TensorFlow, or the compiler, that will run a module reads."""

import dataclasses
import importlib.metadata
import re

from graftax.xla_call_module import errors, mlir
from graftax.xla_call_module.exporting.tensorflow_versions import TENSORFLOW_VERSIONS

__all__ = ["Target"]

# The oldest version of the calling convention that modules of this package follow.
_OLDEST_CALL_MODULE_VERSION = 8

# The oldest release for which modules are written if no target is named. 2.15 reads an older calling convention.
_OLDEST_BY_DEFAULT = (2, 16)

_DISTRIBUTIONS = (
  "tensorflow",
  "tensorflow-cpu",
  "tensorflow-intel",
  "tensorflow-macos",
  "tensorflow-cpu-aws",
  "tensorflow-rocm",
  "tf-nightly",
  "tf-nightly-cpu",
  "intel-tensorflow",
)


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
  """The newest versions that the TensorFlow that will run a module reads.

  Attributes:
    name: the name in messages, such as "tensorflow-2.16".
    stablehlo_version: the newest version of StableHLO; a string such as "1.9.1" is accepted, too.
    call_module_version: the newest version of the XlaCallModule node, at least 8.
    may_be_older: whether a module is written for an older release if that has everything in it. Models then load in
      more releases than the one that is installed.
    has_custom_calls: whether it runs the custom calls of TensorFlow's XLA. If not, functions that need one cannot be
      written for it.

  Raises:
    VersionError: a version is malformed, or older than what this package writes.

  Example:
    >>> Target.of("tensorflow-2.16")
    Target(name='tensorflow-2.16', stablehlo_version=(0, 17, 7), call_module_version=9)
    >>> Target("my runtime", "1.8.0", 9).stablehlo_version
    (1, 8, 0)
  """

  name: str
  stablehlo_version: tuple[int, int, int]
  call_module_version: int
  may_be_older: bool = dataclasses.field(default=False, repr=False)
  has_custom_calls: bool = dataclasses.field(default=True, repr=False)

  def __post_init__(self) -> None:
    object.__setattr__(self, "stablehlo_version", _parsed(self.stablehlo_version, self.name))
    number = self.call_module_version
    if not isinstance(number, int) or isinstance(number, bool) or number < _OLDEST_CALL_MODULE_VERSION:
      raise errors.VersionError(
        f"Target {self.name!r}: call_module_version={number!r}; expected an integer from"
        f" {_OLDEST_CALL_MODULE_VERSION} on. Older nodes follow another calling convention."
      )

  def older(self) -> "tuple[Target, ...]":
    """Returns the older releases that a module may be written for, from the oldest on; see `may_be_older`."""
    rows = [(release, row) for release, row in sorted(TENSORFLOW_VERSIONS.items()) if release >= _OLDEST_BY_DEFAULT]
    older = [(release, row) for release, row in rows if row[0] < self.stablehlo_version]
    if not self.may_be_older:
      return ()
    if not self.has_custom_calls:
      return tuple(Target.compiler(row[0]) for _, row in older)
    return tuple(Target(_name(release), *row) for release, row in older)

  @property
  def stablehlo_text(self) -> str:
    """The version of StableHLO with dots, such as "1.9.1"."""
    return ".".join(map(str, self.stablehlo_version))

  @staticmethod
  def compiler(version: str | tuple[int, int, int] | None = None) -> "Target":
    """Returns the target for a compiler that reads StableHLO and runs no custom calls, such as IREE.

    Args:
      version: the version of StableHLO, such as "1.9.1". For None, a module is written in the oldest version that has
        everything in it, among those that releases of TensorFlow from 2.16 on read.

    Raises:
      VersionError: the version is malformed, or newer or older than what the installed jaxlib writes.
    """
    newest = _parsed(mlir.current_version(), "StableHLO")
    if version is None:
      number = newest
    else:
      number = _parsed(version, "StableHLO")
      oldest = _parsed(mlir.oldest_version(), "StableHLO")
      if not oldest <= number <= newest:
        raise errors.VersionError(
          f"StableHLO {_dotted(number)} cannot be written: the installed jaxlib writes {_dotted(oldest)} to "
          f"{_dotted(newest)}."
        )
    return Target(
      f"StableHLO {_dotted(number)}",
      number,
      max(row[1] for row in TENSORFLOW_VERSIONS.values()),
      may_be_older=version is None,
      has_custom_calls=False,
    )

  @staticmethod
  def of(target: "Target | str | None") -> "Target":
    """Returns the target with a given name.

    Args:
      target: "tensorflow-2.16" or "tensorflow-2.16.2" for that release of TensorFlow. A release that is newer than the
        table gets the table's newest versions, which it reads. None means the installed TensorFlow, which is not
        imported; if none is installed, the newest release of the table. Modules for it are written for the oldest
        release from 2.16 on that has everything in them. A `Target` is returned unchanged.

    Raises:
      VersionError: no target has this name, or the installed TensorFlow is older than the table.
    """
    if isinstance(target, Target):
      return target
    if target is None:
      release = _installed_release()
      newest = _tensorflow(release if release is not None else max(TENSORFLOW_VERSIONS), "the installed TensorFlow")
      return dataclasses.replace(newest, may_be_older=True)
    match = re.fullmatch(r"tensorflow-(\d+)\.(\d+)(?:\..*)?", target) if isinstance(target, str) else None
    if match is None:
      raise errors.VersionError(
        f"target {target!r} is not known; expected None, a Target, or a name from {_name(min(TENSORFLOW_VERSIONS))!r}"
        f" to {_name(max(TENSORFLOW_VERSIONS))!r}."
      )
    return _tensorflow((int(match[1]), int(match[2])), f"target {target!r}")


def _tensorflow(release: tuple[int, int], what: str) -> Target:
  known = [row for row in TENSORFLOW_VERSIONS if row <= release]
  if not known:
    raise errors.VersionError(
      f"{what} is release {_dotted(release)}; modules are written for {_dotted(min(TENSORFLOW_VERSIONS))} and newer."
      " Upgrade TensorFlow, or name the target that will run the module."
    )
  stablehlo_version, call_module_version = TENSORFLOW_VERSIONS[max(known)]
  return Target(_name(release), stablehlo_version, call_module_version)


def _installed_release() -> tuple[int, int] | None:
  for name in _DISTRIBUTIONS:
    try:
      match = re.match(r"(\d+)\.(\d+)", importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
      continue
    if match is not None:
      return int(match[1]), int(match[2])
  return None


def _parsed(version: object, name: str) -> tuple[int, int, int]:
  parts = re.findall(r"\d+", version) if isinstance(version, str) else version
  if isinstance(version, str) and not re.fullmatch(r"\d+\.\d+\.\d+", version):
    parts = None
  numbers = [int(part) for part in parts] if isinstance(parts, (tuple, list)) else []
  if len(numbers) != 3:
    raise errors.VersionError(
      f"Target {name!r}: stablehlo_version={version!r}; expected three numbers, such as '1.9.1'."
    )
  return numbers[0], numbers[1], numbers[2]


def _name(release: tuple[int, int]) -> str:
  return f"tensorflow-{_dotted(release)}"


def _dotted(release: tuple[int, ...]) -> str:
  return ".".join(map(str, release))
