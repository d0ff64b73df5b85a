"""The values that a module of another library has for the variables of its model."""

from collections.abc import Mapping

from graftax.savedmodel_io.errors import SaveInputError
from graftax.savedmodel_io.pytrees import Leaf

__all__ = ["values_of_module"]


def values_of_module(params: object) -> Mapping[str, Leaf]:
  """Returns values by variable name, from a dict, from None, or from a module that `graftax.convert.modules` made.

  Args:
    params: the module, its `nnx.state` (also as a pure dict, and of some kinds of variables only), or `(module, state)`
      if the library keeps the state beside the module, as equinox does.

  Raises:
    SaveInputError: it is something else.
  """
  if params is None:
    return {}
  if isinstance(params, Mapping):
    inner = params["variables"] if set(params) == {"variables"} else None
    # No variable has a dict as its value: this is the state of a module of `nnx_module`.
    return inner if isinstance(inner, Mapping) else params
  module, *state = params if isinstance(params, tuple) else (params,)
  read = getattr(module, "variable_values", None)
  if read is None:
    raise SaveInputError(
      f"save: params is a {type(params).__name__}; expected a dict from variable name to array, the module that "
      "nnx_module or keras_layer returned, or (module, state) of equinox_module"
    )
  try:
    values: Mapping[str, Leaf] = read(*state)
  except TypeError as e:
    raise SaveInputError(
      f"save: params is a {type(module).__name__} with {len(state)} states; pass (module, state) for a module of "
      "equinox, and the module alone for others"
    ) from e
  return values
