"""Runs StableHLO modules in JAX: `lift` converts a module to JAX operations, `embed` wraps it as one opaque operation.

module = Module.from_exported(exported)     # or from_bytes, from_text, from_hlo, from_call_module
function = lift(module)                     # flat arrays in, tuple of arrays out
"""

import warnings
from typing import TYPE_CHECKING, Any

from graftax.xla_call_module import _lazy

if TYPE_CHECKING:
  from graftax.xla_call_module.budget import Limits
  from graftax.xla_call_module.compute_dtype import with_compute_dtype
  from graftax.xla_call_module.context import LiftOptions, Record
  from graftax.xla_call_module.dispatch import Explanation, Obstacle, call, explain
  from graftax.xla_call_module.embedding import Embedded, embed
  from graftax.xla_call_module.errors import (
    ArgumentError,
    CustomCallError,
    DecodeError,
    DerivativeError,
    GraftaxError,
    GuardError,
    LiftError,
    LimitExceededError,
    PlatformError,
    RefinementError,
    ShapeAssertionError,
    StableHloError,
    UnsupportedModuleError,
    VersionError,
    X64Error,
  )
  from graftax.xla_call_module.gradient_check import GradientDifference, check_gradients
  from graftax.xla_call_module.ir import Attributes, Op, TensorType
  from graftax.xla_call_module.jax_primitives import with_jax_primitives
  from graftax.xla_call_module.lifting import Lifted, lift, lowered_ops
  from graftax.xla_call_module.module import ArgumentSpec, Module
  from graftax.xla_call_module.plugins import CustomCall
  from graftax.xla_call_module.registry import register, register_composite, register_custom_call
  from graftax.xla_call_module.signature import Leaf, SavedSharding, Signature
  from graftax.xla_call_module.structured_calls import Structured, structured
  from graftax.xla_call_module.trees import SavedNode, Tree

__version__ = "0.1.0"

__all__ = [
  "ArgumentError",
  "ArgumentSpec",
  "Attributes",
  "CustomCall",
  "CustomCallError",
  "DecodeError",
  "DerivativeError",
  "Embedded",
  "Explanation",
  "GradientDifference",
  "GraftaxError",
  "GuardError",
  "Leaf",
  "LiftError",
  "LiftOptions",
  "Lifted",
  "LimitExceededError",
  "Limits",
  "Module",
  "Obstacle",
  "Op",
  "PlatformError",
  "Record",
  "RefinementError",
  "SavedNode",
  "SavedSharding",
  "ShapeAssertionError",
  "Signature",
  "StableHloError",
  "Structured",
  "TensorType",
  "Tree",
  "UnsupportedModuleError",
  "VersionError",
  "X64Error",
  "call",
  "check_gradients",
  "embed",
  "explain",
  "lift",
  "lowered_ops",
  "register",
  "register_composite",
  "register_custom_call",
  "structured",
  "with_compute_dtype",
  "with_jax_primitives",
]

# `lifting` is first because it registers the built-in lowerings, so that a user's override is registered after them.
_HOMES = (
  "lifting",
  "registry",
  "module",
  "errors",
  "budget",
  "compute_dtype",
  "context",
  "dispatch",
  "embedding",
  "gradient_check",
  "ir",
  "jax_primitives",
  "plugins",
  "signature",
  "structured_calls",
  "trees",
)


def __getattr__(name: str) -> Any:
  # Imported on first use, so that importing `lax_extras` does not import the rest of the package (about 0.3 s).
  if name == "UnsupportedOpError":
    warnings.warn(
      "graftax.xla_call_module.UnsupportedOpError is LiftError; graftax 0.2 no longer has the old name.",
      DeprecationWarning,
      stacklevel=2,
    )
    name = "LiftError"
  return _lazy.find(name, globals(), _HOMES)


def __dir__() -> list[str]:
  return sorted({*globals(), *__all__})
