"""Tables of lowering functions by name: of StableHLO ops, of custom-call targets, and of composites."""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

__all__ = [
  "LoweringRule",
  "LoweringTable",
  "composites",
  "custom_calls",
  "ops",
  "register",
  "register_composite",
  "register_custom_call",
  "unknown_settings",
]


F = TypeVar("F", bound=Callable[..., Any])

# HLO's importer repeats the type of an op in one, and keeps the layout of its result in the other.
_IGNORED_EVERYWHERE = frozenset({"result_layout", "xla_shape"})

# What a custom call says about the call itself. Layouts and aliases do not change values.
_CUSTOM_CALL_ATTRIBUTES = (
  "api_version",
  "backend_config",
  "call_target_name",
  "has_side_effect",
  "indices_of_shape_operands",
  "operand_layouts",
  "output_operand_aliases",
  "result_layouts",
)


@dataclasses.dataclass(frozen=True, slots=True)
class LoweringRule:
  """How one op is lowered.

  Attributes:
    function: `function(context, op, *operands)` returns the op's result, or a tuple of its results.
    takes_known: pass known operands as NumPy arrays or symbolic arrays; otherwise they are converted to operands of JAX
      ops.
    takes_environment: pass the keyword argument `environment`, which maps the numbers of the values around the op to
      values. It is always passed for ops with regions.
    attributes: the attributes that the function reads or may ignore; None disables the check.
  """

  function: Callable[..., Any]
  takes_known: bool
  takes_environment: bool = False
  attributes: frozenset[str] | None = None

  def unknown_attributes(self, attrs: Mapping[str, object]) -> list[str]:
    """Returns the attributes of an op that the lowering does not declare and that may change the op's meaning.

    An attribute with a dot in its name belongs to another dialect (`mhlo.sharding`, `jax.result_info`). Any pass may
    drop such annotations, so they are ignored.
    """
    return _unknown(attrs, self.attributes)


def _unknown(attrs: Mapping[str, object], known: Collection[str] | None) -> list[str]:
  if known is None or attrs.keys() <= set(known):
    return []
  return sorted(name for name in attrs if name not in known and "." not in name and name not in _IGNORED_EVERYWHERE)


def unknown_settings(attrs: Mapping[str, object], settings: Collection[str] | None) -> list[str]:
  """Returns the attributes of a custom call that are none of its settings; none if `settings` is None."""
  return _unknown(attrs, None if settings is None else (*settings, *_CUSTOM_CALL_ATTRIBUTES))


class LoweringTable(dict[str, LoweringRule]):
  """Lowering rules by name."""

  def add(
    self,
    names: Iterable[str],
    *,
    takes_known: bool = False,
    takes_environment: bool = False,
    attributes: Iterable[str] | None = None,
    override: bool = False,
  ) -> Callable[[F], F]:
    """Returns a decorator that registers a rule for each name; replacing a rule requires `override=True`.

    Raises:
      TypeError: `names` is empty or contains something other than strings.
    """
    names = tuple(names)
    if not names or not all(isinstance(name, str) for name in names):
      raise TypeError(f"got names {names!r}; expected strings, as in @register('stablehlo.add').")
    known = None if attributes is None else frozenset(attributes)

    def decorate(function: F) -> F:
      for name in names:
        if name in self and not override:
          raise ValueError(f"a lowering for {name!r} is registered already; pass override=True to replace it.")
        self[name] = LoweringRule(function, takes_known, takes_environment, known)
      return function

    return decorate


ops = LoweringTable()
custom_calls = LoweringTable()
composites = LoweringTable()


def register(
  *names: str,
  takes_known: bool = False,
  takes_environment: bool = False,
  attributes: Iterable[str] | None = (),
  ignores: Iterable[str] = (),
  override: bool = False,
) -> Callable[[F], F]:
  """Returns a decorator that registers the lowering of ops such as `"stablehlo.add"`.

  The lowering is called as `function(context, op, *operands)` and returns the op's result, or a tuple of its results.

  Args:
    names: ops that the function lowers.
    takes_known: pass known operands as NumPy arrays or symbolic arrays; otherwise they are converted to operands of JAX
      ops.
    takes_environment: pass the keyword argument `environment`, which maps the numbers of the values around the op to
      values. It is always passed for ops with regions.
    attributes: names in `op.attrs` that the function reads. An op with any other attribute does not lift, because that
      attribute may change the result. Names with a dot are annotations and are not checked. None disables the check.
    ignores: further attributes that may be present and do not change the result.
    override: replace registered lowerings.

  Raises:
    ValueError: a lowering is registered already, and `override` is false.

  Example:
    >>> from graftax.xla_call_module import register, registry
    >>> @register("my_dialect.double")
    ... def double(context, op, x):
    ...   return x + x
    >>> @register("my_dialect.scale", attributes=["factor"])
    ... def scale(context, op, x):
    ...   return x * op.attrs["factor"]
    >>> del registry.ops["my_dialect.double"], registry.ops["my_dialect.scale"]
  """
  return ops.add(
    names,
    takes_known=takes_known,
    takes_environment=takes_environment,
    attributes=None if attributes is None else (*attributes, *ignores),
    override=override,
  )


def register_custom_call(
  *targets: str, takes_known: bool = False, attributes: Iterable[str] | None = None, override: bool = False
) -> Callable[[F], F]:
  """Returns a decorator that registers the lowering of a `stablehlo.custom_call` by its target; see `register`.

  Args:
    *targets: values of `call_target_name` that the function lowers.
    takes_known: as for `register`.
    attributes: as for `register`, besides the attributes that every custom call may have. By default they are not
      checked, because most targets carry settings of the library that they call.
    override: replace lowerings that are registered.

  Raises:
    TypeError: there are no targets, or one is not a string.
    ValueError: a lowering is registered already, and `override` is false. The decorator raises it.

  Example:
    >>> from graftax.xla_call_module import register_custom_call, registry
    >>> @register_custom_call("my_double")
    ... def double(context, op, x):
    ...   return x + x
    >>> del registry.custom_calls["my_double"]
  """
  known = None if attributes is None else (*attributes, *_CUSTOM_CALL_ATTRIBUTES)
  return custom_calls.add(targets, takes_known=takes_known, attributes=known, override=override)


def register_composite(*names: str, takes_known: bool = False, override: bool = False) -> Callable[[F], F]:
  """Returns a decorator that registers the lowering of a `stablehlo.composite` by its name.

  The function is called as for `register`. A composite without a registered lowering is lifted through its
  decomposition.

  Args:
    *names: names of composites, such as `"my.gelu"`. `op.attrs` of the function are the composite's own attributes.
    takes_known: as for `register`.
    override: replace registered lowerings.

  Raises:
    TypeError: there are no names, or one is not a string.
    ValueError: a lowering is registered already, and `override` is false. The decorator raises it.

  Example:
    >>> from graftax.xla_call_module import register_composite, registry
    >>> @register_composite("my.scaled")
    ... def scaled(context, op, x):
    ...   return x * op.attrs["factor"]
    >>> del registry.composites["my.scaled"]
  """
  return composites.add(names, takes_known=takes_known, override=override)
