"""StableHLO as ordinary JAX: lift a module into JAX operations, or embed it as one opaque operation.

module = Module.from_exported(exported)     # or from_bytes, from_text, from_hlo, from_call_module
function = lift(module)                     # flat arrays in, tuple of arrays out
"""

from graftax.xla_call_module.check_gradients import GradientDifference, check_gradients
from graftax.xla_call_module.context import Record
from graftax.xla_call_module.dispatch import Explanation, Obstacle, call, explain
from graftax.xla_call_module.embed import embed
from graftax.xla_call_module.errors import (
  ArgumentError,
  DecodeError,
  DerivativeError,
  GuardError,
  PlatformError,
  RefinementError,
  ShapeAssertionError,
  StableHloError,
  UnsupportedModuleError,
  UnsupportedOpError,
  VersionError,
  X64Error,
)
from graftax.xla_call_module.lift import Lifted, lift
from graftax.xla_call_module.module import ArgumentSpec, Module
from graftax.xla_call_module.registry import register, register_composite, register_custom_call

__all__ = [
  "ArgumentError",
  "ArgumentSpec",
  "DecodeError",
  "DerivativeError",
  "Explanation",
  "GradientDifference",
  "GuardError",
  "Lifted",
  "Module",
  "Obstacle",
  "PlatformError",
  "Record",
  "RefinementError",
  "ShapeAssertionError",
  "StableHloError",
  "UnsupportedModuleError",
  "UnsupportedOpError",
  "VersionError",
  "X64Error",
  "call",
  "check_gradients",
  "embed",
  "explain",
  "lift",
  "register",
  "register_composite",
  "register_custom_call",
]
