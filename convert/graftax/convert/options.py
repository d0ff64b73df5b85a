"""Options of a conversion, and TF2JAX's three functions that set their defaults."""

import contextlib
import contextvars
import dataclasses
import inspect
import threading
import types
from collections.abc import Iterator, Mapping
from typing import Any

from graftax.ops_jax import LoweringOptions

__all__ = ["ConvertOptions", "current_options", "get_config", "override_config", "update_config"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ConvertOptions(LoweringOptions):
  """Choices for one conversion.

  Attributes:
    strict_shape_check: refuse inputs whose shape does not fit the converted signature. Read at every call.
    strict_dtype_check: refuse inputs whose dtype is not that of the signature. Read at every call.
    force_const_float32_to_bfloat16: turn float32 constants of the graph into bfloat16.
    force_const_float64_to_bfloat16: turn float64 constants of the graph into bfloat16.
    convert_custom_gradient: use `tf.custom_gradient` functions for derivatives: in reverse mode as they are, in forward
      mode their transposes. Where a model was saved without them, and for the derivatives of gradient functions that
      have custom gradients of their own (TensorFlow saves those of the first order only), the computation as it stands
      is differentiated.
    disable_assert_in_tensor_list_get_item: for TF2JAX's users; changes nothing, as `TensorListGetItem` takes the shape
      of its elements from the list and asserts nothing about the one it is told.
    skip_variables_evaluation_inside_tf_tracing: leave variables unread while TensorFlow itself is tracing; the
      parameters are zeros then.
  """

  strict_shape_check: bool = True
  strict_dtype_check: bool = False
  force_const_float32_to_bfloat16: bool = False
  force_const_float64_to_bfloat16: bool = False
  convert_custom_gradient: bool = True
  disable_assert_in_tensor_list_get_item: bool = False
  skip_variables_evaluation_inside_tf_tracing: bool = False


def _with_inherited(doc: str | None, inherited: str | None) -> str:
  """A docstring that ends in attributes, followed by those of the base class, which `help` would leave out."""
  own = inspect.cleandoc(doc or "")
  return f"{own}\n{inspect.cleandoc(inherited or '').partition('Attributes:')[2].strip(chr(10))}"


ConvertOptions.__doc__ = _with_inherited(ConvertOptions.__doc__, LoweringOptions.__doc__)

_NAMES = tuple(field.name for field in dataclasses.fields(ConvertOptions))

# `update_config` replaces this for the whole process; the lock keeps two updates from losing one.
_process_defaults = ConvertOptions()
_update_lock = threading.Lock()

# `override_config` is seen by the code it encloses alone, in whichever thread or task that runs.
_overrides: contextvars.ContextVar[Mapping[str, Any]] = contextvars.ContextVar(
  "graftax_convert_overrides", default=types.MappingProxyType({})
)


def current_options() -> ConvertOptions:
  """The options that a conversion started here would use."""
  return dataclasses.replace(_process_defaults, **_overrides.get())


def get_config(name: str) -> Any:
  """The current value of one option.

  Raises:
    ValueError: there is no such option.

  Example:
    >>> get_config("strict_shape_check")
    True
  """
  _check_name(name)
  return getattr(current_options(), name)


def update_config(name: str, value: Any) -> None:
  """Change the default of one option for the whole process.

  Raises:
    ValueError: there is no such option, or it takes no such value.
  """
  global _process_defaults
  _check_value(name, value)
  with _update_lock:
    _process_defaults = dataclasses.replace(_process_defaults, **{name: value})


@contextlib.contextmanager
def override_config(name: str, value: Any) -> Iterator[None]:
  """Change one option inside a `with` block; other threads do not see it.

  Raises:
    ValueError: there is no such option, or it takes no such value.

  Example:
    >>> with override_config("strict_shape_check", False):
    ...   get_config("strict_shape_check")
    False
  """
  _check_value(name, value)
  token = _overrides.set({**_overrides.get(), name: value})
  try:
    yield
  finally:
    _overrides.reset(token)


def _check_value(name: str, value: Any) -> None:
  _check_name(name)
  if isinstance(getattr(ConvertOptions(), name), bool) and not isinstance(value, bool):
    raise ValueError(f"Option {name!r} is True or False; got {value!r}.")


def _check_name(name: str) -> None:
  if name not in _NAMES:
    raise ValueError(f"Unknown option {name!r}; expected one of {list(_NAMES)}.")
