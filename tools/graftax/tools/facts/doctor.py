"""`graftax doctor`: versions, devices, and optional libraries with the line that installs each."""

import dataclasses
import platform
import re
from collections.abc import Iterator
from importlib import metadata

from graftax.tools.facts.halt_polling import halt_polling_advice
from graftax.tools.facts.huge_pages import huge_pages_advice

__all__ = ["OUR_EXTRAS", "Diagnosis", "LibraryReport", "diagnose"]

_WHEELS = (
  "graftax-xla-call-module",
  "graftax-graphdef-ir",
  "graftax-ops-jax",
  "graftax-convert",
  "graftax-savedmodel-io",
  "graftax-hub-io",
  "graftax-testing",
  "graftax-tools",
)
_REQUIRED = ("jax", "jaxlib", "numpy", "ml_dtypes", "protobuf")
_REQUIREMENT = re.compile(r"[\w.-]+")
_EXTRA = re.compile(r"extra == ['\"]([\w-]+)['\"]")
# Extras for work on graftax itself, which users do not need.
OUR_EXTRAS = frozenset({"maintenance", "benchmarks"})


@dataclasses.dataclass(frozen=True, slots=True)
class LibraryReport:
  """A library that only some functions need.

  Attributes:
    name: its name on the index.
    version: the installed version; None if it is not installed.
    install: the command that installs it.
    extras: the extras that name it, such as `graftax-convert[flax]`.
  """

  name: str
  version: str | None
  install: str
  extras: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Diagnosis:
  """What graftax finds in this environment.

  Attributes:
    python: the version of Python, and the system.
    versions: the installed versions of graftax's wheels and of what they require; None if one is not installed.
    devices: JAX's devices, or why it has none.
    libraries: the optional ones.
    faster: the environment variables and commands that make programs on a CPU faster here.
  """

  python: str
  versions: dict[str, str | None]
  devices: tuple[str, ...]
  libraries: tuple[LibraryReport, ...]
  faster: tuple[str, ...] = ()


def diagnose() -> Diagnosis:
  """Returns what is installed and which devices JAX has. Imports JAX, but none of the optional libraries."""
  names = (*_WHEELS, *_REQUIRED, "tensorflow")
  return Diagnosis(
    python=f"{platform.python_version()} on {platform.platform()}",
    versions={name: _version(name) for name in names},
    devices=tuple(_devices()),
    libraries=tuple(_libraries()),
    faster=tuple(filter(None, (huge_pages_advice(), halt_polling_advice()))),
  )


def _version(name: str) -> str | None:
  # The distribution of TensorFlow for CPUs has another name.
  for candidate in (name, f"{name}-cpu") if name == "tensorflow" else (name,):
    try:
      return metadata.version(candidate)
    except metadata.PackageNotFoundError:
      pass
  return None


def _devices() -> Iterator[str]:
  try:
    import jax

    for device in jax.devices():
      yield f"{device.platform}:{device.id} {device.device_kind}"
  except (ImportError, RuntimeError) as e:
    yield f"none: {str(e).splitlines()[0]}"


def _libraries() -> Iterator[LibraryReport]:
  extras: dict[str, list[str]] = {}
  for wheel in _WHEELS:
    for name, extra in _optional_requirements(wheel):
      if extra not in OUR_EXTRAS and not name.startswith("graftax-"):
        extras.setdefault(name, []).append(f"{wheel}[{extra}]")
  for name, found in sorted(extras.items()):
    yield LibraryReport(name, _version(name), f'pip install "{found[0]}"', tuple(found))


def _optional_requirements(wheel: str) -> Iterator[tuple[str, str]]:
  """Yields the name of each library that an extra of a wheel requires, and the extra."""
  try:
    lines = metadata.requires(wheel) or []
  except metadata.PackageNotFoundError:
    return
  for line in lines:
    name, extra = _REQUIREMENT.match(line), _EXTRA.search(line)
    if name is not None and extra is not None:
      yield name[0].lower(), extra[1]
