"""The methods of a `JaxModule`: JAX functions with their options, and the checks of what a user passes."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graftax.savedmodel_io.errors import SaveInputError
from graftax.savedmodel_io.pytrees import PyTree

__all__ = ["ModuleMethod", "module_methods"]

# The options of `graftax.convert.jax2tf.convert`, except `polymorphic_shapes`, which `JaxModule` computes.
_OPTIONS = (
  "polymorphic_constraints",
  "with_gradient",
  "enable_xla",
  "native_serialization",
  "native_serialization_platforms",
  "native_serialization_disabled_checks",
  "gradient_order",
  "lowering",
)


@dataclass(frozen=True, eq=False)
class ModuleMethod:
  """A method.

  Attributes:
    key: its name.
    apply_fn: the JAX function of `(params, *inputs)`.
    polymorphic_shape: the specification of its input, or a sequence of one for each of several inputs.
    options: further options of `jax2tf.convert`, always with "with_gradient".
    jit_compile: whether TensorFlow compiles it with XLA as a whole; None is the default of `tf.function`.
  """

  key: str
  apply_fn: Callable[..., Any]
  polymorphic_shape: PyTree
  options: Mapping[str, Any]
  jit_compile: bool | None

  def shape_specs(self, num_inputs: int) -> list[PyTree]:
    """Returns the specification of each of `num_inputs` inputs.

    Raises:
      SaveInputError: there are more or fewer specifications than inputs.
    """
    spec = self.polymorphic_shape
    if num_inputs == 1:
      return [spec]
    if spec is None or isinstance(spec, str):
      return [spec] * num_inputs
    if not isinstance(spec, Sequence) or len(spec) != num_inputs:
      raise SaveInputError(
        f"method {self.key!r} is called with {num_inputs} inputs, but its input_polymorphic_shape is {spec!r}; "
        "expected None, one text, or a sequence of one specification for each input"
      )
    return list(spec)

  def input_signature(self) -> inspect.Signature | None:
    """Returns the Python signature of the inputs; None if Python does not tell it."""
    try:
      signature = inspect.signature(self.apply_fn)
    except (TypeError, ValueError):
      return None
    parameters = list(signature.parameters.values())
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if not parameters or parameters[0].kind not in positional:
      return None
    return inspect.Signature([parameter.replace(annotation=parameter.empty) for parameter in parameters[1:]])


def module_methods(
  apply_fn: Any,
  input_polymorphic_shape: PyTree,
  jax2tf_kwargs: Any,
  jit_compile: Any,
  *,
  default_key: str,
  with_gradient: bool,
) -> dict[str, ModuleMethod]:
  """Returns the methods by key, from the arguments of `JaxModule`.

  Raises:
    SaveInputError: something cannot be called, keys do not agree, or an option contradicts another argument.
  """
  if callable(apply_fn):
    shapes, options, compiled = input_polymorphic_shape, jax2tf_kwargs, jit_compile
    return {default_key: _method(default_key, apply_fn, shapes, options, compiled, with_gradient)}
  if not isinstance(apply_fn, Mapping) or not apply_fn:
    raise SaveInputError(f"apply_fn is {apply_fn!r:.80}; expected a function, or a dict from keys to functions")
  for key in apply_fn:
    if not isinstance(key, str):
      raise SaveInputError(f"apply_fn has the key {key!r}; expected strings")
  shapes = _by_method("input_polymorphic_shape", input_polymorphic_shape, apply_fn)
  options = _by_method("jax2tf_kwargs", jax2tf_kwargs, apply_fn)
  if jit_compile is None or isinstance(jit_compile, Mapping):
    compiled = _by_method("jit_compile", jit_compile, apply_fn)
  else:
    compiled = dict.fromkeys(apply_fn, jit_compile)
  return {
    key: _method(key, function, shapes[key], options[key], compiled[key], with_gradient)
    for key, function in apply_fn.items()
  }


def _by_method(name: str, value: object, apply_fn: Mapping[str, Any]) -> Mapping[str, Any]:
  """Returns an argument as a mapping from the keys of `apply_fn`; None is None for each."""
  if value is None:
    return dict.fromkeys(apply_fn)
  if not isinstance(value, Mapping) or value.keys() != apply_fn.keys():
    raise SaveInputError(
      f"`{name}` must have the keys of `apply_fn`, which are {list(apply_fn)}, or be None; got {value!r:.200}"
    )
  return value


def _method(
  key: str, function: Any, shape: PyTree, options: Any, jit_compile: Any, with_gradient: bool
) -> ModuleMethod:
  where = f"method {key!r}"
  if not callable(function):
    raise SaveInputError(f"{where} is {function!r:.80}; expected a function of (params, *inputs)")
  if not (jit_compile is None or isinstance(jit_compile, bool)):
    raise SaveInputError(f"{where}: jit_compile is {jit_compile!r:.80}; expected a bool")
  if options is not None and not isinstance(options, Mapping):
    raise SaveInputError(f"{where}: jax2tf_kwargs is {options!r:.80}; expected a dict of options, or None")
  checked = _checked_options(dict(options or {}), with_gradient, where)
  return ModuleMethod(key, function, shape, checked, jit_compile)


def _checked_options(options: dict[str, Any], with_gradient: bool, where: str) -> dict[str, Any]:
  if "polymorphic_shapes" in options:
    raise SaveInputError(f"{where}: jax2tf_kwargs has `polymorphic_shapes`; use `input_polymorphic_shape` instead")
  unknown = sorted(options.keys() - set(_OPTIONS))
  if unknown:
    raise SaveInputError(f"{where}: jax2tf_kwargs has the options {unknown}; expected some of {list(_OPTIONS)}")
  asked = options.setdefault("with_gradient", with_gradient)
  if asked and not with_gradient:
    raise SaveInputError(
      f"{where}: jax2tf_kwargs has with_gradient=True, but the module does not contain trainable parameters; pass "
      "`trainable`"
    )
  if with_gradient and not asked:
    raise SaveInputError(
      f"{where}: jax2tf_kwargs has with_gradient=False, but the module contains trainable parameters; leave one out"
    )
  return options
