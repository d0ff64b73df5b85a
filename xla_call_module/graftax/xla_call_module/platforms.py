"""Checks at lowering time that a module was lowered for the platform."""

import functools
from collections.abc import Sequence
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching

from graftax.xla_call_module import errors, mlir

__all__ = ["canonical", "checked"]

_check_p = Primitive("stablehlo_platform_check")


def canonical(name: str) -> str:
  """Returns a platform's name as modules record it: in lower case, and "cuda" for "gpu"."""
  lowered = name.lower()
  return "cuda" if lowered == "gpu" else lowered


def checked(results: Sequence[Any], platforms: tuple[str, ...]) -> list[Any]:
  """Returns the results unchanged. Lowering them for any other platform than the given ones raises PlatformError."""
  if not results:
    return list(results)
  return [_check_p.bind(results[0], platforms=platforms), *results[1:]]


def _refuse(wanted: Sequence[str], platforms: tuple[str, ...]) -> None:
  if not set(wanted) <= set(platforms):
    raise errors.PlatformError(
      f"the module was lowered for {', '.join(platforms)} and is now being lowered for {', '.join(wanted)}."
      " Export it for that platform too, or lift with check_platform=False if its code runs on both."
    )


@_check_p.def_impl
def _impl(x: Any, *, platforms: tuple[str, ...]) -> Any:
  # The platform is known only at lowering, so this is compiled even under `jax.disable_jit`.
  with jax.disable_jit(False):
    return _compiled(x, platforms)


@functools.partial(jax.jit, static_argnums=1)
def _compiled(x: Any, platforms: tuple[str, ...]) -> Any:
  return _check_p.bind(x, platforms=platforms)


@_check_p.def_abstract_eval
def _abstract(x: Any, *, platforms: tuple[str, ...]) -> Any:
  return x


def _jvp(primals: Any, tangents: Any, **params: object) -> Any:
  return _check_p.bind(primals[0], **params), tangents[0]


def _batch(args: Any, dims: Any, **params: object) -> Any:
  return _check_p.bind(args[0], **params), dims[0]


def _lower(context: Any, x: Any, *, platforms: tuple[str, ...]) -> Any:
  _refuse([canonical(name) for name in mlir.lowering_platforms(context)], platforms)
  return [x]


ad.primitive_jvps[_check_p] = _jvp
ad.primitive_transposes[_check_p] = lambda cotangent, x, **_: [cotangent]
batching.primitive_batchers[_check_p] = _batch
mlir.register_lowering(_check_p, _lower)
