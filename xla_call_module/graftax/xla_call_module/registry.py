"""One table: name of a StableHLO op (or custom-call target, or composite) to the function that lowers it to JAX."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

__all__ = [
  "Rule",
  "Table",
  "composites",
  "custom_calls",
  "ops",
  "register",
  "register_composite",
  "register_custom_call",
]


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
  """How one op is lowered.

  Attributes:
    function: `function(context, op, *operands)` gives the op's result, or a tuple of its results.
    takes_known: known operands stay numpy arrays; otherwise every operand is one of a JAX op.
    takes_environment: the keyword argument `environment` maps the numbers of the values around the op to values. It
      does in any case where the op has regions.
  """

  function: Callable[..., Any]
  takes_known: bool
  takes_environment: bool = False


class Table(dict[str, Rule]):
  """Lowering rules by name."""

  def add(
    self,
    names: Iterable[str],
    *,
    takes_known: bool = False,
    takes_environment: bool = False,
    override: bool = False,
  ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator that enters a rule under each name; a second rule for a name needs `override=True`.

    Raises:
      TypeError: there are no names, or they are no strings.
    """
    names = tuple(names)
    if not names or not all(isinstance(name, str) for name in names):
      raise TypeError(f"got names {names!r}; expected strings, as in @register('stablehlo.add').")

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
      for name in names:
        if name in self and not override:
          raise ValueError(f"a lowering for {name!r} is registered already; pass override=True to replace it.")
        self[name] = Rule(function, takes_known, takes_environment)
      return function

    return decorate


ops = Table()
custom_calls = Table()
composites = Table()


def register(
  *names: str, takes_known: bool = False, takes_environment: bool = False, override: bool = False
) -> Callable[..., Any]:
  """Registers the lowering of ops such as `"stablehlo.add"`; `Rule` says what is decorated.

  Args:
    names: ops that the function lowers.
    takes_known: see `Rule`.
    takes_environment: see `Rule`.
    override: replace lowerings that are registered.

  Raises:
    ValueError: a lowering is registered already, and `override` is not given.

  Example:
    >>> from graftax.xla_call_module import register, registry
    >>> @register("my_dialect.double")
    ... def double(context, op, x):
    ...   return x + x
    >>> del registry.ops["my_dialect.double"]
  """
  return ops.add(names, takes_known=takes_known, takes_environment=takes_environment, override=override)


def register_custom_call(*targets: str, takes_known: bool = False, override: bool = False) -> Callable[..., Any]:
  """Registers the lowering of `stablehlo.custom_call`s by their target; see `register`."""
  return custom_calls.add(targets, takes_known=takes_known, override=override)


def register_composite(*names: str, takes_known: bool = False, override: bool = False) -> Callable[..., Any]:
  """Registers the lowering of `stablehlo.composite`s by their name; see `register`."""
  return composites.add(names, takes_known=takes_known, override=override)
