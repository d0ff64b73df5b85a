"""`rewrite_call_module`: an XlaCallModule node that another TensorFlow wrote, for the TensorFlow that will run it."""

import contextlib
import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import jax

from graftax.xla_call_module import communication, errors, ir, mlir
from graftax.xla_call_module.budget import Limits, SharedLimits
from graftax.xla_call_module.exporting.custom_calls import call_check
from graftax.xla_call_module.exporting.export import export_call_module
from graftax.xla_call_module.exporting.target import Target
from graftax.xla_call_module.lifting import Lifted, lift
from graftax.xla_call_module.module import Module

__all__ = ["RewrittenModule", "SharedLimits", "open_arguments", "rewrite_call_module"]

# Nodes of older versions pass sizes as arguments, or have modules that are not portable artifacts.
_OLDEST_KEPT_VERSION = 5
# From this version on `main` may have tokens.
_TOKENS_VERSION = 9
_SHARDY_VERSION = 10

# JAX writes the shapes that a module was exported with into its shape assertions: "... the following polymorphic shapes
# specifications: args[0].shape = (b, 4),args[1].shape = (b,). Obtained dimension variables: ...".
_BEFORE_SHAPES, _BEFORE_SHAPE = "polymorphic shapes specifications: ", ".shape = ("
_MOST_SHAPES_LENGTH = 20_000
_SIZE = re.compile(r"[\w\s+\-*^(),]{1,2000}")
_EXPONENT = re.compile(r"\^\s*(\w+)")
# Of one size. JAX computes 9^999999999 when it reads it.
_MOST_CALLS, _HIGHEST_POWER = 50, 10_000
# The platforms of a module that names none. TensorFlow compiles it for any platform.
_ANY_PLATFORM = ("cpu",)


@dataclasses.dataclass(frozen=True, slots=True)
class RewrittenModule:
  """The new attributes of a node.

  Attributes:
    attributes: the attributes by name, without `Tin`, `Tout` and `Sout`, which stay as they are. The inputs of the node
      stay, too. `use_shardy_partitioner` is present only if the target reads it.
    how: "transcoded" if the same operations were written, in the version of the target; "lifted" if the module was
      lifted to JAX and exported again.
  """

  attributes: dict[str, Any]
  how: Literal["transcoded", "lifted"]


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
    platforms: "cpu", "cuda", "rocm", "tpu": where it will run; None keeps those of the module, or if it names none,
      which only old nodes do, "cpu".
    limits: how much memory and time the module may ask for; by default `Limits()`. With `SharedLimits`, several modules
      share the steps.

  Raises:
    VersionError: the node is of an unknown version, or the target is too old for an op of the module.
    DecodeError: the module is damaged.
    LiftError: the module contains an op that cannot be lifted, or a custom call that the target does not have.
    UnsupportedModuleError: the module cannot stay as it is, and calls functions of TensorFlow or is for several
      devices.

  Example:
    >>> from graftax.xla_call_module.exporting import export_call_module
    >>> node = export_call_module(lambda x: (x + 1,), [jax.ShapeDtypeStruct((3,), "float32")], platforms=["cpu"])
    >>> rewrite_call_module(node.attributes, target="tensorflow-2.16").attributes["version"]
    9
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
  if _num_devices(module) > 1:
    raise refusal or errors.UnsupportedModuleError(
      f"the module is for {_num_devices(module)} devices, and would lose its shardings if it were exported again for "
      f"{target.name}."
    )
  return RewrittenModule(_exported_again(module, wanted or _ANY_PLATFORM, target, limits), "lifted")


def open_arguments(module: Module) -> tuple[jax.ShapeDtypeStruct, ...]:
  """Returns the arguments of a module, with a symbolic dimension for each that is open.

  Dimensions have the names with which the module was exported, if it says so in its shape assertions. Otherwise those
  at the first position are one dimension, and each of the others has its own.

  Example:
    >>> exported = jax.export.export(jax.jit(lambda x: x + 1))(
    ...   jax.ShapeDtypeStruct(jax.export.symbolic_shape("batch, 3"), "float32"))
    >>> open_arguments(Module.from_exported(exported))[0].shape
    (batch, 3)
  """
  is_open = [None in spec.shape for spec in module.inputs]
  written = _written_shapes(module)
  if len(written) == sum(is_open):
    remaining = iter(written)
    shapes = [next(remaining) if unknown else None for unknown in is_open]
    fits = all(dims is None or _fits(dims, spec.shape) for dims, spec in zip(shapes, module.inputs, strict=True))
    with contextlib.suppress(ValueError):  # the text is not what JAX writes
      if fits:
        return _with_dimensions(module, shapes)
  return _with_dimensions(module, _generic_names(module))


def _generic_names(module: Module) -> list[list[str] | None]:
  number = 0
  shapes: list[list[str] | None] = []
  for spec in module.inputs:
    dims = []
    for axis, size in enumerate(spec.shape):
      number += size is None and axis > 0
      dims.append(str(size) if size is not None else "batch" if axis == 0 else f"dimension_{number}")
    shapes.append(dims if None in spec.shape else None)
  return shapes


def _with_dimensions(module: Module, shapes: Sequence[Sequence[str] | None]) -> tuple[jax.ShapeDtypeStruct, ...]:
  """Returns the arguments of a module, with the shape that is given as text for each that has open dimensions."""
  scope = jax.export.SymbolicScope()
  return tuple(
    jax.ShapeDtypeStruct(
      spec.shape if dims is None else jax.export.symbolic_shape(", ".join([*dims, ""]), scope=scope), spec.dtype
    )
    for dims, spec in zip(shapes, module.inputs, strict=True)
  )


def _keeps_convention(module: Module, platforms: Sequence[str], target: Target) -> bool:
  """Returns whether the operations of a module can stay as they are, if the target has them all."""
  version = module.version or 0
  if version < _OLDEST_KEPT_VERSION or module.dim_args:
    return False
  # The module's first argument is an index into its list of platforms, so that list cannot be changed.
  if module.has_platform_index and tuple(platforms) != module.platforms:
    return False
  if not module.has_platform_index and len(platforms) > 1 and tuple(platforms) != module.platforms:
    return False
  return target.call_module_version >= _TOKENS_VERSION or not _has_tokens(module)


def _num_devices(module: Module) -> int:
  return communication.num_partitions(module.ir) * communication.num_replicas(module.ir)


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
    num_devices=_num_devices(module),
    check_call=call_check(target, platforms or _ANY_PLATFORM, allowed, module.ir.name or "main"),
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
      called, open_arguments(module), target=target, platforms=tuple(platforms), disabled_checks=_checks(module)
    )
  return exported.attributes


def _checks(module: Module) -> list[Any]:
  """Returns the custom calls that the exporter of a module allowed by `disabled_checks`."""
  names = (check.partition(":")[2] for check in module.disabled_checks if check.startswith("custom_call:"))
  return [jax.export.DisabledSafetyCheck.custom_call(name) for name in names]


def _written_shapes(module: Module) -> list[list[str]]:
  """Returns the shapes with open dimensions that are named in the messages of a module, in the order of its inputs."""
  for op in ir.walk(module.ir.main.body):
    _, found, rest = str(op.attrs.get("error_message", "")).partition(_BEFORE_SHAPES)
    if found:
      pieces = rest[:_MOST_SHAPES_LENGTH].split(_BEFORE_SHAPE)[1:]
      return [_dimensions(piece) for piece in pieces]
  return []


def _dimensions(text: str) -> list[str]:
  """Returns the dimensions at the beginning of "b, max(2, s)), ...", up to the parenthesis that closes the shape."""
  dims, depth = [""], 0
  for character in text:
    depth += (character == "(") - (character == ")")
    if depth < 0:
      break
    if character == "," and not depth:
      dims.append("")
    else:
      dims[-1] += character
  return [dim.strip() for dim in dims if dim.strip()]


def _fits(dims: Sequence[str], shape: Sequence[int | None]) -> bool:
  return len(dims) == len(shape) and all(
    _is_small(dim) if size is None else dim == str(size) for dim, size in zip(dims, shape, strict=True)
  )


def _is_small(dim: str) -> bool:
  """Returns whether a size is a text that JAX may have written, and that takes little time to read."""
  exponents = _EXPONENT.findall(dim)
  return (
    _SIZE.fullmatch(dim) is not None
    and dim.count("(") <= _MOST_CALLS
    and all(exponent.isdecimal() and len(exponent) < 4 for exponent in exponents)
    and math.prod(map(int, exponents)) <= _HIGHEST_POWER
  )
