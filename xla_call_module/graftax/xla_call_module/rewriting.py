"""`rewrite_call_module`: an XlaCallModule node that another TensorFlow wrote, for the TensorFlow that will run it."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import jax

from graftax.xla_call_module import errors, ir, mlir
from graftax.xla_call_module.budget import Limits
from graftax.xla_call_module.exporting.custom_calls import call_check
from graftax.xla_call_module.exporting.export import export_call_module
from graftax.xla_call_module.exporting.target import Target
from graftax.xla_call_module.lifting import Lifted, lift
from graftax.xla_call_module.module import Module

__all__ = ["RewrittenModule", "open_arguments", "rewrite_call_module"]

# Nodes of older versions pass sizes as arguments, or have modules that are not portable artifacts.
_OLDEST_KEPT_VERSION = 5
# From this version on `main` may have tokens.
_TOKENS_VERSION = 9
_SHARDY_VERSION = 10

# JAX writes the shapes that a module was exported with into its shape assertions.
_WRITTEN_SHAPES = re.compile(r"polymorphic shapes specifications: (.*?)\. (?:Obtained|Please)", re.DOTALL)
_WRITTEN_SHAPE = re.compile(r"\.shape = \(([^()]*(?:\([^()]*\)[^()]*)*)\)")


@dataclasses.dataclass(frozen=True, slots=True)
class RewrittenModule:
  """The new attributes of a node.

  Attributes:
    attributes: the attributes by name, without `Tin`, `Tout` and `Sout`, which stay as they are. The inputs of the node
      stay, too. `use_shardy_partitioner` is present only if the target reads it.
    how: "kept" if nothing had to change; "transcoded" if the same operations were written in another version of
      StableHLO or of the calling convention; "lifted" if the module was lifted to JAX and exported again.
  """

  attributes: dict[str, Any]
  how: Literal["kept", "transcoded", "lifted"]


def rewrite_call_module(
  attributes: Mapping[str, Any],
  *,
  target: Target | str | None = None,
  platforms: Sequence[str] | None = None,
  limits: Limits | None = None,
) -> RewrittenModule:
  """Returns the attributes of an XlaCallModule node so that a given TensorFlow runs it on given platforms.

  The operations are kept if the target has them: they are then only written in its version of StableHLO. Otherwise, and
  if the module is of an older calling convention or for other platforms, it is lifted to JAX and exported again.

  Args:
    attributes: the attributes of the node, as `Module.from_call_module` takes them.
    target: the TensorFlow that will run the node, see `Target.of`.
    platforms: "cpu", "cuda", "rocm", "tpu": where it will run; None keeps those of the module.
    limits: how much memory and time the module may ask for; by default `Limits()`.

  Raises:
    VersionError: the node is of an unknown version, or the target is too old for an op of the module.
    DecodeError: the module is damaged.
    LiftError: the module contains an op that cannot be lifted, or a custom call that the target does not have.
    UnsupportedModuleError: the module calls functions of TensorFlow, or communicates between devices.
  """
  target = Target.of(target)
  module = Module.from_call_module(**attributes, limits=limits)
  wanted = module.platforms if platforms is None else tuple(platforms)
  refusal: errors.StableHloError | None = None
  if _keeps_convention(module, wanted, target):
    try:
      return _transcoded(attributes, module, wanted, target)
    except (errors.VersionError, errors.LiftError) as error:
      refusal = error
  if module.function_list:
    raise refusal or errors.UnsupportedModuleError(
      f"the module calls the TensorFlow functions {module.function_list!r}, so it cannot be written for {target.name}."
    )
  return RewrittenModule(_exported_again(module, wanted, target, limits), "lifted")


def open_arguments(module: Module) -> tuple[jax.ShapeDtypeStruct, ...]:
  """Returns the arguments of a module, with a symbolic dimension for each that is open.

  Dimensions have the names with which the module was exported, if it says so in its shape assertions. Otherwise those
  at the first position are one dimension, and each of the others has its own.
  """
  written = iter(_written_shapes(module))
  number = 0
  shapes = []
  for spec in module.inputs:
    if None not in spec.shape:
      shapes.append(", ".join(map(str, spec.shape)))
      continue
    dims = next(written, None)
    if dims is None or not _fits(dims, spec.shape):
      dims = []
      for axis, size in enumerate(spec.shape):
        number += size is None and axis > 0
        dims.append(str(size) if size is not None else "batch" if axis == 0 else f"dimension_{number}")
    shapes.append(", ".join(dims))
  scope = jax.export.SymbolicScope()
  return tuple(
    jax.ShapeDtypeStruct(jax.export.symbolic_shape(f"{shape},", scope=scope) if shape else (), spec.dtype)
    for shape, spec in zip(shapes, module.inputs, strict=True)
  )


def _keeps_convention(module: Module, platforms: Sequence[str], target: Target) -> bool:
  """Returns whether the operations of a module can stay as they are, if the target has them all."""
  version = module.version or 0
  if version < _OLDEST_KEPT_VERSION or module.dim_args:
    return False
  # The index of the platform is that of the list, so the list of such a module stays.
  if module.has_platform_index and tuple(platforms) != module.platforms:
    return False
  if not module.has_platform_index and len(platforms) > 1 and tuple(platforms) != module.platforms:
    return False
  return target.call_module_version >= _TOKENS_VERSION or not _has_tokens(module)


def _has_tokens(module: Module) -> bool:
  return any(isinstance(kind, ir.TokenType) for kind in module.ir.main.types)


def _transcoded(
  attributes: Mapping[str, Any], module: Module, platforms: Sequence[str], target: Target
) -> RewrittenModule:
  allowed = frozenset(
    check.removeprefix("custom_call:") for check in module.disabled_checks if check.startswith("custom_call:")
  )
  data, _ = mlir.legalize(
    module.data,
    version=target.stablehlo_version,
    check_call=call_check(target, platforms or ("cpu",), allowed, module.ir.name or "main"),
  )
  new = dict(attributes)
  new["version"] = min(int(new["version"]), target.call_module_version)
  new["module"] = data
  new["platforms"] = tuple(name.upper() for name in platforms)
  if target.call_module_version < _SHARDY_VERSION:
    new.pop("use_shardy_partitioner", None)
  return RewrittenModule(new, "transcoded")


def _exported_again(module: Module, platforms: Sequence[str], target: Target, limits: Limits | None) -> dict[str, Any]:
  lifted: Lifted = lift(module, check_platform=False, gradient="primal", x64="enable", limits=limits)
  with jax.enable_x64(True):
    called = jax.jit(lifted, keep_unused=True)
    exported = export_call_module(
      called, open_arguments(module), target=target, platforms=tuple(platforms) or None, disabled_checks=_checks(module)
    )
  return exported.attributes


def _checks(module: Module) -> list[Any]:
  """Returns the custom calls that the exporter of a module vouched for."""
  names = (check.partition(":")[2] for check in module.disabled_checks if check.startswith("custom_call:"))
  return [jax.export.DisabledSafetyCheck.custom_call(name) for name in names]


def _written_shapes(module: Module) -> list[list[str]]:
  """Returns the shapes with open dimensions that are named in the messages of a module, in the order of its inputs."""
  for op in ir.walk(module.ir.main.body):
    found = _WRITTEN_SHAPES.search(str(op.attrs.get("error_message", "")))
    if found is not None:
      return [_dimensions(shape) for shape in _WRITTEN_SHAPE.findall(found[1])]
  return []


def _dimensions(shape: str) -> list[str]:
  """Splits "b, max(2, s)" at the commas that are not in parentheses."""
  dims, depth = [""], 0
  for character in shape:
    depth += (character == "(") - (character == ")")
    if character == "," and not depth:
      dims.append("")
    else:
      dims[-1] += character
  return [dim.strip() for dim in dims if dim.strip()]


def _fits(dims: Sequence[str], shape: Sequence[int | None]) -> bool:
  return len(dims) == len(shape) and all(
    size is None or dim == str(size) for dim, size in zip(dims, shape, strict=True)
  )
