"""Nested arguments and results of a JAX function as the structures that TensorFlow has.

TensorFlow nests lists, tuples, named tuples and dicts. Any other pytree node becomes a dict of its named children, or a
list of its children if they have no names. The order of the flat tensors is that of TensorFlow, which sorts the keys of
every dict.
"""

import dataclasses
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax

from graftax.convert.errors import ConversionError
from graftax.convert.jax2tf.argument_names import positional_names
from graftax.convert.pytrees import PyTree

__all__ = ["ArgumentLayout", "LeafIndex", "argument_layout", "portable_structure"]

# A default value of another type cannot be written into a SavedModel, and is part of the traced function instead.
_PLAIN_DEFAULTS = (bool, int, float, complex, str, bytes, type(None))


@dataclasses.dataclass(frozen=True, slots=True)
class LeafIndex:
  """The flat argument or result of a JAX function at `index`, in the order of `jax.tree.leaves`."""

  index: int


@dataclasses.dataclass(frozen=True, slots=True)
class ArgumentLayout:
  """The arguments of a call of a JAX function, with `LeafIndex`s for arrays, as `InputStructure` has them.

  Attributes:
    args: nested positional arguments. A default value that the call does not replace is a fixed leaf.
    kwargs: nested keyword-only arguments, and those collected by `**`.
    signature: the Python signature, without annotations.
  """

  args: tuple[PyTree, ...]
  kwargs: dict[str, PyTree]
  signature: inspect.Signature


def portable_structure(nested: PyTree, numbers: Iterator[int]) -> PyTree:
  """Returns a pytree as a structure of TensorFlow, with a `LeafIndex` of the next number for each of its leaves.

  None is a fixed leaf.
  """
  if nested is None:
    return None
  children = jax.tree_util.tree_leaves_with_path(nested, is_leaf=lambda value: value is not nested)
  if len(children) == 1 and not children[0][0]:
    return LeafIndex(next(numbers))
  keys = [path[0] for path, _ in children]
  values = [portable_structure(value, numbers) for _, value in children]
  if isinstance(nested, tuple) and hasattr(nested, "_fields"):
    return type(nested)(*values)
  if isinstance(nested, list | tuple):
    return type(nested)(values) if type(nested) in (list, tuple) else list(values)
  if isinstance(nested, Mapping) or all(map(_has_name, keys)):
    return {_child_name(key): value for key, value in zip(keys, values, strict=True)}
  return values


def argument_layout(
  function: Callable[..., Any], num_bound: int, args: Sequence[PyTree], kwargs: Mapping[str, PyTree], name: str
) -> ArgumentLayout:
  """Returns the layout of a call `function(*bound, *args, **kwargs)`, in which only `args` and `kwargs` are arguments.

  The signature is that of the function. If a positional argument is passed by name, it is positional in the layout, so
  that callers may pass it either way. An argument whose default is an object that TensorFlow does not store is left
  out, if the call does not pass it; the arguments after it are then passed by name only.

  Args:
    function: the function.
    num_bound: the number of leading positional arguments that the layout leaves out, such as the parameters.
    args: nested positional arguments.
    kwargs: nested keyword arguments.
    name: the name of the function, for messages.

  Raises:
    ConversionError: the arguments do not fit the signature.
  """
  numbers = itertools.count()
  flat_args = [portable_structure(arg, numbers) for arg in args]
  by_name = {name: portable_structure(kwargs[name], numbers) for name in sorted(kwargs)}
  try:
    signature = inspect.signature(function)
  except (TypeError, ValueError):  # some built-in functions do not tell their signature
    return _unnamed_layout(function, num_bound, flat_args, by_name)
  try:
    signature.bind(*[None] * num_bound, *args, **kwargs)
  except TypeError as e:
    positional = f"{len(args)} positional argument{'' if len(args) == 1 else 's'}"
    bound = "the parameters" if num_bound else "no parameters"
    raise ConversionError(
      f"{name}{signature}: {e}; it was given {bound}, {positional} and the keyword arguments "
      f"{list(kwargs)!r}. Give a jax.ShapeDtypeStruct or an array for each argument"
      f"{' after the parameters' if num_bound else ''}."
    ) from None
  return _Layout(flat_args, by_name).of(list(signature.parameters.values()), num_bound)


def _unnamed_layout(
  function: Callable[..., Any], num_bound: int, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]
) -> ArgumentLayout:
  kind = inspect.Parameter
  names = positional_names(function, num_bound + len(args))[num_bound:]
  parameters = [kind(name, kind.POSITIONAL_OR_KEYWORD) for name in names]
  parameters += [kind(name, kind.KEYWORD_ONLY) for name in kwargs]
  return ArgumentLayout(tuple(args), dict(kwargs), inspect.Signature(parameters))


@dataclasses.dataclass
class _Layout:
  """Assigns the values of a call to the parameters of a signature, one after the other.

  Attributes:
    args: the positional arguments of the call.
    kwargs: the keyword arguments of the call.
    positional: the positional arguments of the layout.
    parameters: the parameters of the layout's signature.
    only_by_name: whether a parameter was left out, so that no value after it can be positional.
  """

  args: list[PyTree]
  kwargs: dict[str, PyTree]
  positional: list[PyTree] = dataclasses.field(default_factory=list)
  parameters: list[inspect.Parameter] = dataclasses.field(default_factory=list)
  only_by_name: bool = False

  def of(self, parameters: Sequence[inspect.Parameter], num_bound: int) -> ArgumentLayout:
    remaining, by_name = iter(self.args), dict(self.kwargs)
    named: dict[str, PyTree] = {}
    for parameter in _after(parameters, num_bound):
      kind = parameter.kind
      if kind is parameter.VAR_POSITIONAL:
        self.positional += remaining
        if not self.only_by_name:
          self._add(parameter)
      elif kind is parameter.VAR_KEYWORD:
        named.update(by_name)
        self._add(parameter)
      elif kind is parameter.KEYWORD_ONLY:
        if parameter.name in by_name:
          named[parameter.name] = by_name.pop(parameter.name)
          self._add(parameter)
        elif isinstance(parameter.default, _PLAIN_DEFAULTS):
          named[parameter.name] = parameter.default
          self._add(parameter)
      else:
        self._positional(parameter, remaining, by_name, named)
    return ArgumentLayout(tuple(self.positional), named, inspect.Signature(self.parameters))

  def _positional(
    self,
    parameter: inspect.Parameter,
    remaining: Iterator[PyTree],
    by_name: dict[str, PyTree],
    named: dict[str, PyTree],
  ) -> None:
    missing = object()
    value = next(remaining, missing)
    if value is missing:
      value = by_name.pop(parameter.name, missing)
    if value is missing and isinstance(parameter.default, _PLAIN_DEFAULTS):
      value = parameter.default
    if value is missing:
      self.only_by_name = True
    elif self.only_by_name:
      named[parameter.name] = value
      self._add(parameter.replace(kind=parameter.KEYWORD_ONLY))
    else:
      self.positional.append(value)
      self._add(parameter)

  def _add(self, parameter: inspect.Parameter) -> None:
    plain = parameter.default is parameter.empty or isinstance(parameter.default, _PLAIN_DEFAULTS)
    default = parameter.default if plain else parameter.empty
    self.parameters.append(parameter.replace(annotation=parameter.empty, default=default))


def _after(parameters: Sequence[inspect.Parameter], num_bound: int) -> list[inspect.Parameter]:
  """Returns the parameters without the first `num_bound` positional ones; `*rest` may take any number of them."""
  named = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][:num_bound]
  return [parameter for parameter in parameters if parameter not in named]


def _has_name(key: Any) -> bool:
  return isinstance(key, jax.tree_util.DictKey | jax.tree_util.GetAttrKey)


def _child_name(key: Any) -> Any:
  return key.key if hasattr(key, "key") else key.name
