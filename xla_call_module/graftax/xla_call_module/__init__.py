"""Runs StableHLO modules in JAX: `lift` converts a module to JAX operations, `embed` wraps it as one opaque operation.

module = Module.from_exported(exported)     # or from_bytes, from_text, from_hlo, from_call_module
function = lift(module)                     # flat arrays in, tuple of arrays out

A module comes in:

- `module`: `Module`, a StableHLO module and its calling convention.
- `calling_convention`: its versions, and the types that arguments and results have.
- `artifacts`: decodes bytes of MLIR, also of other versions of StableHLO.
- `stored_gradients`: the modules of gradients, which are made on first use.
- `input_checks`: checks the inputs of its constructors.
- `subprocess_reader`: parses untrusted MLIR in a helper process first.
- `mlir`: decodes MLIR; the only room that uses MLIR's bindings.
- `bytecode`: reads parts of MLIR bytecode without the bindings.
- `attributes`: parses types and attributes that are only text.
- `exported`: what `jax.export` and `Module.save` wrote, as data.
- `signature`: names, nesting, shapes, shardings and effects of an exported function.
- `trees`: pytrees as data.

What it is inside:

- `ir`: StableHLO as frozen Python data.
- `survey`: one walk over all ops, which collects what is checked before lifting or embedding.
- `analysis`: definitions and uses of values, and which parameters must be known.
- `communication`: ops that exchange data with other devices or with the host.

It is checked:

- `budget`: limits for what a module asks for.
- `costs`: compares depth, inlined ops and sizes of arrays with the limits.
- `expansion`: how large attributes, types and locations are when they are written out.
- `preflight`: whether a module can run in this process.
- `platforms`: whether it was lowered for the platform.
- `arguments`: checks and orders the arguments of a call.

It is lifted:

- `lifting`: `lift`, which converts a module to a JAX function.
- `evaluate`: evaluates the IR, op by op.
- `context`: state that is passed to every lowering.
- `values`: known and traced arrays, symbolic shapes and tokens.
- `fold`: ops on known integers, with NumPy.
- `without_x64`: ops on 64-bit integers in 32 bits.
- `registry`: tables of lowerings by the names of ops, custom calls and composites.
- `lowerings`: the lowerings, one file for each domain.
- `patterns`: code that has a better form in JAX, such as loops of known length.
- `contracts`: what the kernels of custom calls accept.
- `plugins`: `CustomCall`, a custom call of a tool's own.
- `lax_extras`: extensions of `jax.lax` in pure JAX.
- `gradients`: chooses the derivative of a module.

Other ways to call it:

- `dispatch`: `call` and `explain`, which lift if possible and embed otherwise.
- `embedding`: `embed`, a module as one opaque primitive.
- `structured_calls`: `structured`, a module as a function of pytrees.
- `jax_primitives`: `with_jax_primitives`, for tools that know only JAX's own primitives.
- `compute_dtype`: `with_compute_dtype`, for products and convolutions in a narrow dtype.
- `gradient_check`: compares the derivatives that a module carries with those of the lifted code.

A module goes out:

- `exporting`: JAX functions as modules that TensorFlow runs.
- `rewriting`: XlaCallModule nodes, written for another TensorFlow.

Helpers:

- `errors`: the errors of this package.
- `jax_versions`: what differs between the supported versions of JAX.
- `jaxprs`: jaxprs read, and run with other equations.
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
