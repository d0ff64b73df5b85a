"""`embed`: wraps a module, or one op of it, as an opaque primitive; the fallback for ops that do not lift."""

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching

from graftax.xla_call_module import (
  arguments,
  attributes,
  contracts,
  costs,
  errors,
  gradients,
  ir,
  mlir,
  platforms,
  preflight,
)
from graftax.xla_call_module.budget import Limits
from graftax.xla_call_module.context import (
  GradientOption,
  Options,
  X64Option,
  check_choices,
  checked_limits,
  checked_names,
)
from graftax.xla_call_module.module import Module, check_is_module
from graftax.xla_call_module.survey import survey

__all__ = ["Embedded", "embed", "embed_op"]


class _Opaque:
  """Parameter of the primitive: a module, specialized to argument types on demand. Compared by identity."""

  def __init__(self, module: Module, allow_custom_calls: frozenset[str], limits: Limits):
    self.module, self.allow_custom_calls, self.limits = module, allow_custom_calls, limits
    # The types of a polymorphic module are known after its refinement.
    self.targets = self._checked(module.ir, is_refined=not module.is_polymorphic)
    self.jitted = jax.jit(self._bind, static_argnames="platform")
    self._texts: dict[Any, str] = {}

  def _checked(self, module_ir: ir.ModuleIR, *, is_refined: bool) -> frozenset[str]:
    """Checks what is embedded and returns the targets of its custom calls."""
    found = survey(module_ir)
    costs.check(found, module_ir, self.limits)
    preflight.check_dialects(found.names)
    return preflight.check_embeds(module_ir, found.ops, self.allow_custom_calls, is_refined=is_refined)

  def _bind(self, *args: Any, platform: str | None) -> Any:
    return _embed_p.bind(*args, embedded=self, platform=platform)

  def text(self, avals: Sequence[Any], platform: str | None) -> str:
    """Returns the text of the module for static argument types on one platform."""
    key = (tuple((aval.shape, np.dtype(aval.dtype)) for aval in avals), platform)
    if key not in self._texts:
      self._texts[key] = self._specialize(key[0], platform)
    return self._texts[key]

  def _specialize(self, shapes: Sequence[tuple[Any, np.dtype]], platform: str | None) -> str:
    module = self.module
    leading: list[tuple[int, str]] = []
    if module.has_platform_index:
      leading.append((module.platforms.index(platform) if platform in module.platforms else 0, "tensor<i32>"))
    plain = [kind for kind in module.ir.main.types if not isinstance(kind, ir.TokenType)]
    for (argument, axis), kind in zip(module.dim_args, plain[len(leading) :], strict=False):
      leading.append((shapes[argument][0][axis], attributes.type_spelling((), kind.dtype)))
    types = [attributes.type_spelling(shape, dtype) for shape, dtype in shapes]
    text = mlir.specialize(
      module.data,
      types,
      leading=leading,
      kept=module.kept,
      refine=module.is_polymorphic,
      clamps_indices=mlir.SPARSE_PRODUCT in self.targets,
    )
    if module.is_polymorphic:
      self._checked(mlir.decode_text(text, self.limits), is_refined=True)
    return text

  def result_specs(self, avals: Sequence[Any]) -> list[tuple[tuple[Any, ...], np.dtype]]:
    if all(None not in spec.shape for spec in self.module.outputs):
      return [(spec.shape, spec.dtype) for spec in self.module.outputs]
    kinds = mlir.main_result_types(self.text(avals, self.module.platforms[0] if self.module.platforms else None))
    if any(None in kind.shape for kind in kinds):
      raise errors.UnsupportedModuleError(
        f"the module cannot be embedded: its results ({', '.join(map(str, kinds))}) have shapes that depend on data,"
        " which JAX does not support."
      )
    return [(kind.shape, kind.dtype) for kind in kinds]


_embed_p = Primitive("stablehlo_embed")
_embed_p.multiple_results = True


@_embed_p.def_impl
def _impl(*args: Any, embedded: _Opaque, platform: str | None) -> Any:
  with jax.disable_jit(False):  # the module is one op, so it is compiled in any case
    try:
      return embedded.jitted(*args, platform=platform)
    except jax.errors.JaxRuntimeError as e:
      if not str(e).startswith("UNIMPLEMENTED"):
        raise
      raise errors.UnsupportedModuleError(f"XLA does not compile embedded {embedded.module}: {e}") from e


@_embed_p.def_abstract_eval
def _abstract(*avals: Any, embedded: _Opaque, platform: str | None) -> Any:
  for aval in avals:
    if not all(isinstance(dim, int) for dim in aval.shape):
      raise errors.RefinementError(
        f"an embedded module needs static shapes; got {aval.shape}. lift() keeps symbolic dimensions."
      )
  return [jax.core.ShapedArray(shape, dtype) for shape, dtype in embedded.result_specs(avals)]


def _jvp(primals: Any, tangents: Any, *, embedded: _Opaque, platform: str | None) -> Any:
  raise errors.DerivativeError(
    f"embedded {embedded.module} has no such derivative: reverse mode needs a gradient function in the artifact, and"
    " forward mode of an embedded module is not supported. Use lift(); if reverse mode is enough, export the module"
    " with its gradient (vjp_order=1, with_gradient=True)."
  )


def _batch(args: Any, dims: Any, *, embedded: _Opaque, platform: str | None) -> Any:
  """Maps over the batch with a loop, one call per element."""
  moved = [x if d is None else jnp.moveaxis(x, d, 0) for x, d in zip(args, dims, strict=True)]
  is_batched = [d is not None for d in dims]

  def one(batched: Sequence[Any]) -> Any:
    rest = iter(batched)
    return _embed_p.bind(
      *(next(rest) if flag else x for x, flag in zip(moved, is_batched, strict=True)),
      embedded=embedded,
      platform=platform,
    )

  results = lax.map(one, [x for x, flag in zip(moved, is_batched, strict=True) if flag])
  return results, [0] * len(results)


def _lower(context: Any, *operands: Any, embedded: _Opaque, platform: str | None) -> Any:
  text = embedded.text(context.avals_in, platform)
  contracts.initialize(contracts.needs(embedded.targets))
  return mlir.inline_into_lowering(context, text, "embedded", operands)


ad.primitive_jvps[_embed_p] = _jvp
batching.primitive_batchers[_embed_p] = _batch
mlir.register_lowering(_embed_p, _lower)


def embed(
  module: Module,
  *,
  gradient: GradientOption = "auto",
  check_platform: bool = True,
  x64: X64Option = "error",
  allow_custom_calls: Collection[str] = (),
  limits: Limits | None = None,
) -> "Embedded":
  """Returns the module as one opaque operation from flat arrays to a tuple of arrays.

  The operation lowers for every platform that the module was lowered for. `vmap` runs it once per element. Reverse mode
  embeds the gradient function of the artifact. If there is none, and in forward mode, differentiation raises
  DerivativeError.

  Args:
    module: the module to embed.
    gradient: "auto" or "saved", see `lift`; "primal" ignores the stored gradient function.
    check_platform: refuse to lower for a platform that the module was not lowered for.
    x64: what to do if an argument or a result has a 64-bit type while 64-bit types are disabled. "error" raises
      X64Error; "enable" traces and runs the module with 64-bit types enabled. Types inside the module are not changed.
    allow_custom_calls: custom-call targets that are called although no rule says which types they accept; see `lift`.
    limits: how much memory and time the module may ask for; by default `Limits()`.

  Raises:
    ValueError: the value of an option is not one of its choices.
    ArgumentError: `module` is not a `Module`.
    DerivativeError: `gradient` is "saved" and the artifact has no gradient function.
    UnsupportedModuleError: XLA would crash on the module, wait forever, or compute a wrong result. That is so if a
      function calls itself, or if the module communicates with the exporting process or with other devices.
    CustomCallError: a custom call has a target without a rule, or types that its target does not accept. If the module
      is polymorphic, types are checked when it is called.
    LimitExceededError: the module asks for more than `limits`; see `lift`.

  Example:
    >>> import numpy as np
    >>> from graftax.xla_call_module import Module, embed
    >>> module = Module.from_text("func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }")
    >>> embed(module)(np.arange(3, dtype=np.float32))
    (Array([0., 1., 2.], dtype=float32),)
  """
  check_is_module(module, "embed")
  check_choices(gradient=gradient, x64=x64)
  allowed = checked_names(allow_custom_calls)
  options = functools.partial(embed, check_platform=check_platform, x64=x64, allow_custom_calls=allowed, limits=limits)
  pullback = gradients.stored_pullback(module, gradient, options)
  primal = _Primal(module, _Opaque(module, allowed, checked_limits(limits)), check_platform)
  if gradient == "saved" or pullback is not None:
    return Embedded(module, gradients.with_policy(primal, module, pullback, "saved"), x64)
  return Embedded(module, primal, x64)


class _Primal:
  """The results of an embedded module, with the code of the platform that the caller is lowered for."""

  def __init__(self, module: Module, opaque: _Opaque, check_platform: bool):
    self._module, self._opaque, self._check_platform = module, opaque, check_platform
    self._platforms: tuple[str | None, ...] = module.platforms if module.has_platform_index else (None,)

  def __call__(self, *args: Any) -> list[Any]:
    module = self._module
    calls = [_On(self._opaque, platform) for platform in self._platforms]
    if len(calls) == 1:
      results = calls[0](*args)
    else:  # keep the code of each platform, also in an export for several
      branches = dict(zip(module.platforms, calls, strict=True))
      results = lax.platform_dependent(*args, default=branches.get("cpu", calls[0]), **branches)
    if self._check_platform and module.checks_platform:
      return platforms.checked(results, module.platforms)
    return list(results)


class _On:
  """An embedded module with the code of one platform. It has a `__name__`, which JAX requires of a branch."""

  def __init__(self, opaque: _Opaque, platform: str | None):
    self._opaque, self._platform = opaque, platform
    self.__name__ = platform or "embedded"

  def __call__(self, *args: Any) -> list[Any]:
    return list(_embed_p.bind(*args, embedded=self._opaque, platform=self._platform))


class Embedded:
  """An embedded module: one opaque operation, from flat arrays to a tuple of arrays.

  Attributes:
    module: the module that was embedded.
  """

  def __init__(self, module: Module, call: Callable[..., Any], x64: str):
    self.module: Module = module
    self._call, self._x64 = call, x64
    self.__name__: str = module.ir.name or "embedded"
    self.__qualname__ = self.__name__

  def __repr__(self) -> str:
    return f"<embedded {self.__name__}: {self.module}>"

  def __call__(self, *args: Any) -> tuple[jax.Array, ...]:
    lacks_x64 = not jax.config.jax_enable_x64
    return arguments.call_checked(self._call, self.module, args, lacks_x64=lacks_x64, x64=self._x64)


def embed_op(
  module_data: bytes | str,
  op: ir.Op,
  environment: dict[int, Any],
  options: Options,
) -> list[Any]:
  """Runs one op of a module as an opaque operation on values of the environment and returns its results.

  Raises:
    LiftError: the op has no results or results of unsupported types, or it was inlined or rewritten.
  """
  if not op.results or not all(isinstance(kind, ir.TensorType) and kind.is_static for kind in op.types):
    raise _not_alone(op, f"its results are of types ({', '.join(map(str, op.types))}); expected static tensors")
  try:
    text, reads = mlir.extract_op(module_data, op.results[0])
  except KeyError:  # inlined or rewritten, so the module has no such op
    raise _not_alone(op, "it was inlined") from None
  if not all(number in environment for number in reads):
    raise _not_alone(op, "a value it reads was rewritten")
  embedded = _Opaque(Module.from_text(text, limits=options.limits), options.allow_custom_calls, options.limits)
  return list(_embed_p.bind(*(jnp.asarray(environment[number]) for number in reads), embedded=embedded, platform=None))


def _not_alone(op: ir.Op, why: str) -> errors.LiftError:
  message = f"{op.place} cannot be embedded alone: {why}."
  return errors.LiftError(message, op=op.name, location=op.location)
