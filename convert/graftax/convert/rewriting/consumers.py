"""The programs that graphs can be written for."""

import dataclasses
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from graftax.convert.errors import ConversionError
from graftax.convert.jax2tf.tf_ops.missing_ops import CONSUMERS
from graftax.convert.jax2tf.traced_function import PLATFORMS

if TYPE_CHECKING:
  from graftax.xla_call_module.exporting import Target

__all__ = ["Consumer"]

# These run no XlaCallModule node, whatever its version.
_WITHOUT_STABLEHLO = (*CONSUMERS, "plain")
_TENSORFLOW = re.compile(r"tensorflow(-\d+\.\d+(\..*)?)?")
_COMPILER = re.compile(r"stablehlo(-(?P<version>\d+\.\d+\.\d+))?")
# Older releases cannot read the XlaCallModule nodes of this package. They get plain ops, which every release runs.
_OLDEST_WITH_STABLEHLO = (2, 15)
_NAMES = (
  "'tensorflow', a release such as 'tensorflow-2.16', 'tfjs', 'tflite', 'onnx', 'plain', 'stablehlo', or a version of "
  "it such as 'stablehlo-1.9.1'"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Consumer:
  """The program that will run a graph.

  Attributes:
    name: its name.
    form: "stablehlo" for XlaCallModule nodes, "tf_ops" for plain TensorFlow ops, "files" for files of StableHLO
      without a graph of TensorFlow.
    target: the TensorFlow, or for "files" the compiler, that reads the modules; None for "tf_ops".
  """

  name: str
  form: Literal["stablehlo", "tf_ops", "files"]
  target: "Target | None" = None

  @property
  def converter(self) -> str | None:
    """The consumer whose ops plain ops are limited to; None if it runs all of TensorFlow's."""
    return self.name if self.name in CONSUMERS else None

  def check_platforms(self, platforms: Sequence[str] | None) -> None:
    """Raises ConversionError unless graphs for this consumer can be written for given platforms.

    Args:
      platforms: "cpu", "cuda", "rocm", "tpu"; None for the default. Plain ops of TensorFlow run on all of them.

    Raises:
      ConversionError: the consumer has no platforms, or `platforms` is not a sequence of their names.

    Example:
      >>> Consumer.of("tflite").check_platforms(["tpu"])
      Traceback (most recent call last):
        ...
      graftax.convert.errors.ConversionError: platforms ['tpu'] cannot be chosen for 'tflite', ...
    """
    if platforms is None:
      return
    if self.converter is not None:
      raise ConversionError(
        f"platforms {list(platforms)!r} cannot be chosen for {self.name!r}, whose runtime decides where its plain ops "
        "run. Consumers with platforms are 'tensorflow', its releases, 'plain' and 'stablehlo'."
      )
    if isinstance(platforms, str) or not platforms or not set(platforms) <= set(PLATFORMS):
      raise ConversionError(f"platforms={platforms!r}; expected None, or a sequence of some of {PLATFORMS}.")

  @staticmethod
  def of(name: str) -> "Consumer":
    """Returns the consumer with a given name.

    Args:
      name: "tensorflow" for the installed TensorFlow, or for the newest release that is known if none is installed; a
        release such as "tensorflow-2.16"; "tfjs", "tflite" or "onnx" for the converters to TensorFlow.js, TFLite and
        ONNX; "plain" for anything else that runs plain TensorFlow ops. Releases before 2.15 get plain ops, too. A
        release that is newer than all that are known gets what the newest of them reads, as it reads that, too.
        "stablehlo" for compilers that read files of StableHLO, such as IREE, or "stablehlo-1.9.1" for that version.

    Raises:
      ConversionError: no consumer has this name.
      VersionError: the installed TensorFlow is older than all that modules are written for, or the version of StableHLO
        is not one that the installed jaxlib writes.

    Example:
      >>> Consumer.of("tensorflow-2.13").form, Consumer.of("tensorflow-2.18").form
      ('tf_ops', 'stablehlo')
    """
    from graftax.xla_call_module.exporting import Target

    if name in _WITHOUT_STABLEHLO:
      return Consumer(name, "tf_ops")
    if isinstance(name, str) and (compiler := _COMPILER.fullmatch(name)):
      return Consumer(name, "files", Target.compiler(compiler["version"]))
    if not isinstance(name, str) or not _TENSORFLOW.fullmatch(name):
      raise ConversionError(f"consumer {name!r} is not known; expected {_NAMES}.")
    release = re.findall(r"\d+", name)
    if release and (int(release[0]), int(release[1])) < _OLDEST_WITH_STABLEHLO:
      return Consumer(name, "tf_ops")
    return Consumer(name, "stablehlo", Target.of(name if release else None))
