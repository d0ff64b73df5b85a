"""Options of a conversion, and the three functions of TF2JAX that read and change their defaults."""

import contextlib
import contextvars
import dataclasses
import difflib
import inspect
import threading
import types
from collections.abc import Iterator, Mapping
from typing import Any

from graftax.graphdef_ir import Limits
from graftax.ops_jax import LoweringOptions

__all__ = ["ConvertOptions", "current_options", "get_config", "override_config", "update_config"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ConvertOptions(LoweringOptions):
  """Options of one conversion.

  Attributes:
    strict_shape_check: raise if the shape of an input does not fit the signature. Read at every call.
    strict_dtype_check: raise if the dtype of an input is not that of the signature. Read at every call.
    force_const_float32_to_bfloat16: turn float32 constants of the graph into bfloat16.
    force_const_float64_to_bfloat16: turn float64 constants of the graph into bfloat16.
    convert_custom_gradient: use `tf.custom_gradient` functions for derivatives. Forward mode uses their transposes. If
      a model was saved without them, its computation is differentiated instead. The same holds for gradient functions
      that have custom gradients, because TensorFlow saves only those of the first order.
    differentiate_assignments: whether derivatives pass through values that the function assigns to its variables. By
      default they do as in TensorFlow, where reading a variable counts as the variable itself, whatever was assigned to
      it: for `v.assign(w * x); return v * v` the derivative by `w` is 0 and by `v` is twice the assigned value.
    disable_assert_in_tensor_list_get_item: has no effect; TF2JAX has it. `TensorListGetItem` takes the shape of an
      element from the list and does not assert that it equals the requested shape.
    skip_variables_evaluation_inside_tf_tracing: do not read variables while TensorFlow is tracing; the parameters are
      then zeros.
    fallback: what becomes of ops without a lowering. None raises UnsupportedOpError. "tensorflow" has TensorFlow, which
      must be installed, compile each of them to StableHLO, which becomes JAX operations with all transformations. This
      needs known shapes, and works for ops on numbers without state.
  """

  strict_shape_check: bool = True
  strict_dtype_check: bool = False
  force_const_float32_to_bfloat16: bool = False
  force_const_float64_to_bfloat16: bool = False
  convert_custom_gradient: bool = True
  differentiate_assignments: bool = False
  disable_assert_in_tensor_list_get_item: bool = False
  skip_variables_evaluation_inside_tf_tracing: bool = False
  fallback: str | None = None

  def __post_init__(self) -> None:
    if self.fallback not in (None, "tensorflow"):
      raise ValueError(f"Option 'fallback' is None or 'tensorflow'; got {self.fallback!r}.")
    sizes = self.max_sizes
    if sizes is not None and not (isinstance(sizes, Mapping) and all(map(_is_size, sizes.values()))):
      raise ValueError(f"Option 'max_sizes' maps names of nodes or ops to integers of at least 0; got {sizes!r}.")
    if isinstance(self.allow_custom_calls, str) or not all(isinstance(name, str) for name in self.allow_custom_calls):
      raise ValueError(f"Option 'allow_custom_calls' is a tuple of names; got {self.allow_custom_calls!r}.")
    if not isinstance(self.limits, Limits):
      raise ValueError(f"Option 'limits' is a graftax.convert.Limits; got {self.limits!r}.")


def _is_size(value: Any) -> bool:
  return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _with_inherited(doc: str | None, inherited: str | None) -> str:
  """Returns a docstring with the attributes of the base class added, because `help` does not show them."""
  own = inspect.cleandoc(doc or "")
  return f"{own}\n{inspect.cleandoc(inherited or '').partition('Attributes:')[2].strip(chr(10))}"


ConvertOptions.__doc__ = _with_inherited(ConvertOptions.__doc__, LoweringOptions.__doc__)

_NAMES = tuple(field.name for field in dataclasses.fields(ConvertOptions))

# `update_config` replaces this for the whole process; without the lock, two threads could lose an update.
_process_defaults = ConvertOptions()
_update_lock = threading.Lock()

# `override_config` changes this only for the code inside its `with` block, in that thread or task.
_overrides: contextvars.ContextVar[Mapping[str, Any]] = contextvars.ContextVar(
  "graftax_convert_overrides", default=types.MappingProxyType({})
)


def current_options() -> ConvertOptions:
  """Returns the options that a conversion would use now.

  Example:
    >>> current_options().strict_shape_check
    True
  """
  return dataclasses.replace(_process_defaults, **_overrides.get())


def get_config(name: str) -> Any:
  """Returns the current value of one option.

  Raises:
    ValueError: there is no such option.

  Example:
    >>> get_config("strict_shape_check")
    True
  """
  _check_name(name)
  return getattr(current_options(), name)


def update_config(name: str, value: Any) -> None:
  """Changes the default of one option for the whole process.

  Args:
    name: a field of `ConvertOptions`.
    value: the new default; see `ConvertOptions` for those that each option may have. Conversions that were given
      `options=` are not affected, nor is a block of `override_config` for the same option.

  Raises:
    ValueError: there is no such option, or it cannot have this value.

  Example:
    >>> update_config("strict_shape_check", False)
    >>> get_config("strict_shape_check")
    False
    >>> update_config("strict_shape_check", True)
  """
  global _process_defaults
  _check_value(name, value)
  with _update_lock:
    _process_defaults = dataclasses.replace(_process_defaults, **{name: value})


@contextlib.contextmanager
def override_config(name: str, value: Any) -> Iterator[None]:
  """Changes one option inside a `with` block; other threads are not affected.

  Args:
    name: a field of `ConvertOptions`.
    value: the value inside of the block; see `ConvertOptions` for those that each option may have.

  Raises:
    ValueError: there is no such option, or it cannot have this value.

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
  ConvertOptions(**{name: value})


def _check_name(name: str) -> None:
  if name not in _NAMES:
    near = difflib.get_close_matches(str(name), _NAMES, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"Unknown option {name!r}; expected one of {list(_NAMES)}.{hint}")
