"""The one registry: TensorFlow op name -> lowering, where the Python signature is the schema.

Positional parameters are the op's tensor inputs, in the op's order; keyword-only parameters are its attributes;
`Static[...]` marks an input that must be known while tracing; a first parameter annotated `Context` asks for the
program around the node, and a keyword-only parameter annotated `IntegerFacts` for what is known of traced integers.
Attributes that several ops share are the keys of a `TypedDict`: `**attrs: Unpack[ConvAttrs]`.
"""

import dataclasses
import functools
import importlib
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar

from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.errors import RegistrationError
from graftax.ops_jax._core.integer_facts import IntegerFacts
from graftax.ops_jax._core.values import STATIC_MARKER, SYMBOLIC_MARKER

__all__ = ["InputParameter", "Lowering", "lowering", "register", "supported_ops"]


@dataclasses.dataclass(frozen=True, slots=True)
class InputParameter:
  """One tensor input of a lowering.

  Attributes:
    name: the op's input argument name.
    static_type: what to decode a known value to, or None where the input may be traced.
    takes_symbolic: whether symbolic dimensions stay what they are also where other inputs are traced.
  """

  name: str
  static_type: Any | None
  takes_symbolic: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Lowering:
  """A JAX implementation of a TensorFlow op, with the schema read from its signature.

  Attributes:
    function: the Python function.
    inputs: its tensor inputs, in the op's order.
    attrs: attribute name -> annotated type.
    ignores: attributes that carry nothing the function needs (types that the inputs show anyway).
    needs_context: whether the first argument is the `Context`.
    needs_facts: whether there is a keyword argument `facts`; not beside a `Context`, which has them.
    takes_symbols: whether known inputs that hold symbolic dimensions are passed as they are, if all inputs are known.
    moves: names of the inputs whose elements it moves without looking at them.
    sees_shapes: whether it looks at nothing but the shapes of its inputs.
  """

  function: Callable[..., Any]
  inputs: tuple[InputParameter, ...]
  attrs: Mapping[str, Any]
  ignores: frozenset[str]
  needs_context: bool
  needs_facts: bool = False
  takes_symbols: bool = False
  moves: frozenset[str] = frozenset()
  sees_shapes: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class _Registration:
  function: Callable[..., Any]
  ignores: frozenset[str]
  symbolic: bool
  moves: frozenset[str]
  sees_shapes: bool


# The packages that hold lowerings; each lists its modules in LOWERINGS.
_ROOMS = (
  "array",
  "control_flow",
  "image",
  "int64_pairs",
  "linalg",
  "lists",
  "math",
  "nn",
  "optimizers",
  "quantization",
  "random",
  "signal",
  "sparse",
  "state",
  "tf2xla",
)
_loaded = False

_REGISTRATIONS: dict[str, _Registration] = {}
# Lowerings that take 64-bit integers as words (`wide.WideInts`).
_BY_WORDS: dict[str, _Registration] = {}
_Function = TypeVar("_Function", bound=Callable[..., Any])


def register(
  *op_names: str,
  ignores: Iterable[str] = (),
  override: bool = False,
  words: Literal["no", "shapes", "also", "only"] = "no",
  moves: Iterable[str] = (),
  symbolic: bool = False,
) -> Callable[[_Function], _Function]:
  """A decorator that makes a Python function the lowering of TensorFlow ops.

  Args:
    *op_names: TensorFlow's op names; all share the function.
    ignores: attributes that the function does not need. An attribute that is neither a keyword-only parameter nor
      listed here is an error when a graph uses it. Attributes whose name starts with an underscore are always ignored.
    override: replace an existing lowering, for users who know better than we do; also the one that takes words.
    words: what the function makes of 64-bit integers that come as `wide.WideInts`, since 64-bit types are off. "no":
      it takes none. "shapes": it looks at their shapes alone. "also": it takes them like any other input. "only": it
      stands beside the op's ordinary lowering, for nodes that are given some.
    moves: names of the inputs whose elements the function moves without looking at them, all other inputs being
      positions and shapes. Where these are words, it runs once for the low and once for the high ones.
    symbolic: whether the function computes on symbolic dimensions. If so, and all inputs are known, shape vectors that
      hold some come as numpy arrays of dtype object, so that results may stay known; otherwise they come as traced
      arrays. A function that asks for the context always gets the former.

  Returns:
    The decorator; it returns the function unchanged, so that lowerings stay ordinary functions.

  Raises:
    RegistrationError: an op has a lowering already, or the signature is not one of a lowering.

  Example:
    >>> import jax.numpy as jnp
    >>> @register("MyCompanyScale", ignores=("T",))
    ... def scale(x, *, factor: float):
    ...   return x * factor
    >>> "MyCompanyScale" in supported_ops()
    True
  """

  def decorate(function: _Function) -> _Function:
    # Ours come first, so that a user's override is never overridden by them in turn. One of ours may be imported alone,
    # and must not wait for modules that wait for it.
    registration = _Registration(function, frozenset(ignores), symbolic, frozenset(moves), words == "shapes")
    if not _is_ours(function.__module__):
      _load_lowerings()
      # So that a wrong one fails here. Ours are read when a graph needs them, since reading all takes long.
      _read_signature(registration)
    takes_words = words in ("also", "only")
    tables = [*([_REGISTRATIONS] if words != "only" else []), *([_BY_WORDS] if takes_words else [])]
    for op in op_names:
      if op in tables[0] and not override:
        raise RegistrationError(
          f"register({op!r}): {_describe(tables[0][op].function)} lowers this op already; "
          f"pass override=True to put {_describe(function)} in its place."
        )
    for table in tables:
      table.update(dict.fromkeys(op_names, registration))
    if override and not takes_words:  # else some inputs would still go to what was replaced
      for op in op_names:
        _BY_WORDS.pop(op, None)
    return function

  return decorate


def lowering(op: str, *, by_words: bool = False) -> Lowering | None:
  """The lowering registered for `op`, or None; `by_words`, the one that takes 64-bit integers as words."""
  _load_lowerings()
  registration = (_BY_WORDS if by_words else _REGISTRATIONS).get(op)
  return None if registration is None else _read_signature(registration)


def supported_ops() -> frozenset[str]:
  """Names of all TensorFlow ops that have a lowering.

  Example:
    >>> {"Conv2D", "MatMul", "Cumsum"} <= supported_ops()
    True
  """
  _load_lowerings()
  return frozenset(_REGISTRATIONS)


def _is_ours(module: str) -> bool:
  return module.startswith("graftax.ops_jax.") and not module.endswith("_test")


def _load_lowerings() -> None:
  # Importing all rooms takes as long as importing the rest of graftax, so it waits for the first lookup. The flag is
  # set first, because lowerings register themselves while this runs.
  global _loaded
  if _loaded:
    return
  _loaded = True
  for room in _ROOMS:
    package = f"graftax.ops_jax.{room}"
    for module in importlib.import_module(package).LOWERINGS:
      importlib.import_module(f"{package}.{module}")


@functools.cache
def _read_signature(registration: _Registration) -> Lowering:
  function = registration.function
  hints = typing.get_type_hints(function, include_extras=True)
  inputs: list[InputParameter] = []
  attrs: dict[str, Any] = {}
  needs_context = needs_facts = False
  for position, parameter in enumerate(inspect.signature(function).parameters.values()):
    hint = hints.get(parameter.name)
    if hint is IntegerFacts:
      needs_facts = True
    elif parameter.kind is parameter.KEYWORD_ONLY:
      if hint is None:
        raise RegistrationError(f"{_describe(function)}: attribute {parameter.name!r} has no type annotation.")
      attrs[parameter.name] = hint
    elif hint is Context:
      if position:
        raise RegistrationError(f"{_describe(function)}: the Context must be the first parameter.")
      needs_context = True
    elif parameter.kind is parameter.VAR_KEYWORD and typing.get_origin(hint) is typing.Unpack:
      attrs.update(typing.get_type_hints(typing.get_args(hint)[0]))
    elif parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
      takes_symbolic = SYMBOLIC_MARKER in getattr(hint, "__metadata__", ())
      inputs.append(InputParameter(parameter.name.rstrip("_"), _static_type(hint), takes_symbolic))
    else:
      raise RegistrationError(f"{_describe(function)}: parameter {parameter} is neither an input nor an attribute.")
  unknown = registration.moves - {parameter.name for parameter in inputs}
  if unknown:
    raise RegistrationError(f"{_describe(function)}: moves={sorted(unknown)!r} names no input.")
  return Lowering(
    function,
    tuple(inputs),
    attrs,
    registration.ignores,
    needs_context,
    needs_facts=needs_facts,
    takes_symbols=registration.symbolic or needs_context,
    moves=registration.moves,
    sees_shapes=registration.sees_shapes,
  )


def _static_type(hint: Any) -> Any | None:
  if STATIC_MARKER in getattr(hint, "__metadata__", ()):
    return hint.__origin__
  return None


def _describe(function: Callable[..., Any]) -> str:
  return f"{function.__module__}.{function.__qualname__}"
