"""The Python signature of a saved `tf.function`."""

import inspect
from dataclasses import dataclass

from graftax.graphdef_ir import schema
from graftax.savedmodel_io.errors import DamagedSavedModelError
from graftax.savedmodel_io.objects.structured_value import decode_structure
from graftax.savedmodel_io.pytrees import PyTree

__all__ = ["FunctionSpec", "decode_function_spec"]


@dataclass(frozen=True, slots=True)
class FunctionSpec:
  """Arguments of a function as it was written, without `self`.

  Attributes:
    args: names of the positional arguments.
    varargs: name behind `*`, or None.
    varkw: name behind `**`, or None.
    defaults: default values of the last positional arguments.
    kwonlyargs: names of the keyword-only arguments.
    kwonlydefaults: their default values.
    input_signature: the structure of specs that `tf.function` was given, or None.
    jit_compile: the `jit_compile` argument of `tf.function`; None if it was not given.
  """

  args: tuple[str, ...]
  varargs: str | None
  varkw: str | None
  defaults: tuple[PyTree, ...]
  kwonlyargs: tuple[str, ...]
  kwonlydefaults: dict[str, PyTree]
  input_signature: PyTree
  jit_compile: bool | None

  @property
  def signature(self) -> inspect.Signature:
    """The same as `inspect` describes it.

    Raises:
      DamagedSavedModelError: the names cannot be those of a Python function.
    """
    kind = inspect.Parameter
    required = len(self.args) - len(self.defaults)
    parameters = []
    try:
      for i, name in enumerate(self.args):
        default = self.defaults[i - required] if i >= required else kind.empty
        parameters.append(kind(name, kind.POSITIONAL_OR_KEYWORD, default=default))
      if self.varargs:
        parameters.append(kind(self.varargs, kind.VAR_POSITIONAL))
      for name in self.kwonlyargs:
        parameters.append(kind(name, kind.KEYWORD_ONLY, default=self.kwonlydefaults.get(name, kind.empty)))
      if self.varkw:
        parameters.append(kind(self.varkw, kind.VAR_KEYWORD))
      return inspect.Signature(parameters)
    except (ValueError, TypeError) as e:
      raise DamagedSavedModelError(f"function spec {self} is not a Python signature: {e}") from e


def decode_function_spec(proto: schema.FunctionSpec) -> FunctionSpec:
  """Returns the spec that a message describes.

  Raises:
    DamagedSavedModelError: the message is not the record of a Python signature.
  """
  full = decode_structure(proto.fullargspec)
  fields = getattr(full, "_fields", ())
  missing = {"args", "varargs", "varkw", "defaults", "kwonlyargs", "kwonlydefaults"} - set(fields)
  if missing:
    raise DamagedSavedModelError(f"a function spec lacks {sorted(missing)}; it has {list(fields)}")
  args, kwonlyargs = _names(full.args), _names(full.kwonlyargs)
  if proto.is_method:
    # `self` is bound in the saved object. Its default, if every argument has one, goes with it.
    args = args[1:]
  defaults, kwonlydefaults = full.defaults or (), full.kwonlydefaults or {}
  if not isinstance(defaults, tuple | list) or not isinstance(kwonlydefaults, dict):
    raise DamagedSavedModelError(f"a function spec has defaults {defaults!r} and {kwonlydefaults!r}")
  has_signature = proto.HasField("input_signature")
  return FunctionSpec(
    args=args,
    varargs=full.varargs,
    varkw=full.varkw,
    defaults=tuple(defaults[max(0, len(defaults) - len(args)) :]),
    kwonlyargs=kwonlyargs,
    kwonlydefaults=kwonlydefaults,
    input_signature=decode_structure(proto.input_signature) if has_signature else None,
    jit_compile={schema.FunctionSpec.ON: True, schema.FunctionSpec.OFF: False}.get(proto.jit_compile),
  )


def _names(value: object) -> tuple[str, ...]:
  names = () if value is None else value
  if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
    raise DamagedSavedModelError(f"a function spec has argument names {value!r}; expected a list of strings")
  return tuple(names)
