"""`write_module`: a JAX function as a module of StableHLO, for compilers that know no graphs of TensorFlow."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax

from graftax.convert.errors import ConversionError
from graftax.convert.rewriting.consumers import Consumer

__all__ = ["CompiledFunction", "write_module"]

_PLATFORMS = ("cpu", "cuda", "rocm", "tpu")


@dataclasses.dataclass(frozen=True, slots=True)
class CompiledFunction:
  """A function as a module of StableHLO.

  Attributes:
    module: a portable artifact. Its function `main` takes and returns flat arrays. It has the names of operations, and
      no files and lines of the machine that wrote it.
    version: the version of StableHLO that it is written in, such as "1.9.1".
    outputs: shape and dtype of each result.
  """

  module: bytes
  version: str
  outputs: tuple[jax.ShapeDtypeStruct, ...]


def write_module(
  function: Callable[..., Sequence[Any]],
  specs: Sequence[jax.ShapeDtypeStruct],
  consumer: Consumer | str = "stablehlo",
  *,
  platform: str = "cpu",
) -> CompiledFunction:
  """Returns a JAX function as a module of StableHLO.

  Args:
    function: takes flat positional arrays and returns a list of arrays.
    specs: its arguments, with symbolic dimensions for open sizes. Arguments that it does not use stay.
    consumer: "stablehlo" or a version of it, see `Consumer.of`.
    platform: "cpu", "cuda", "rocm" or "tpu": the platform whose operations JAX chooses.

  Raises:
    ConversionError: the consumer or the platform is another one.
    VersionError: the version is not known, or too old for an op of the function.
    LiftError: the function needs a custom call, which compilers do not have.
    UnsupportedModuleError: it has side effects or communicates between devices.

  Example:
    >>> import numpy as np
    >>> written = write_module(lambda x: [x * 2], [jax.ShapeDtypeStruct((2, 3), np.float32)], "stablehlo-1.9.1")
    >>> written.version, written.outputs
    ('1.9.1', (ShapeDtypeStruct(shape=(2, 3), dtype=float32),))
  """
  from graftax.xla_call_module.exporting import export_call_module

  consumer = Consumer.of(consumer) if isinstance(consumer, str) else consumer
  if consumer.form != "files":
    raise ConversionError(f"consumer {consumer.name!r} does not read files of StableHLO; expected 'stablehlo'.")
  if platform not in _PLATFORMS:
    # JAX takes any name, and writes the code that it has for platforms that it does not know.
    raise ConversionError(f"platform {platform!r} is not known; expected one of {', '.join(map(repr, _PLATFORMS))}.")
  jitted = jax.jit(function, keep_unused=True)
  written = export_call_module(jitted, specs, target=consumer.target, platforms=(platform,))
  return CompiledFunction(written.attributes["module"], written.target.stablehlo_text, written.outputs)
