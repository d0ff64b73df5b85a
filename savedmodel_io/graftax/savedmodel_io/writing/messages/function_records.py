"""The records of functions in a SavedModel: how concrete functions, gradients and `tf.function`s are called."""

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tree

from graftax.convert import CustomGradient, InputStructure, Program
from graftax.graphdef_ir import Function, PartialShape, Result, TensorSpec, schema
from graftax.savedmodel_io.errors import SaveInputError, UnsupportedSavedModelError
from graftax.savedmodel_io.objects.structured_encoding import encode_structure, named_tuple
from graftax.savedmodel_io.pytrees import Leaf, PyTree

__all__ = [
  "bare_function",
  "concrete_function",
  "flat_arguments",
  "function_spec",
  "gradient_function",
  "keyword_spec",
  "plain_record",
]

# TensorFlow takes an argument of this name, if it is the first, for that of a method.
_SELF = "self"


def concrete_function(program: Program, bound_inputs: Sequence[int]) -> schema.SavedConcreteFunction:
  """Returns the record of a program's function.

  Args:
    program: the program.
    bound_inputs: the ids of the objects that it captures.

  Raises:
    SaveInputError: its arguments or results hold something that SavedModels cannot store.
  """
  inputs = program.inputs
  names = iter([name for name, _, _ in flat_arguments(inputs)])
  args, kwargs = tree.map_structure(lambda leaf: _named(leaf, names), (inputs.args, dict(inputs.kwargs)))
  where = f"program {program.name!r}"
  return schema.SavedConcreteFunction(
    bound_inputs=bound_inputs,
    canonicalized_input_signature=encode_structure((tuple(args), kwargs), f"{where}: its arguments"),
    output_signature=encode_structure(program.outputs.nested, f"{where}: its result"),
  )


def gradient_function(
  gradient: CustomGradient, function: Function, bound_inputs: Sequence[int]
) -> schema.SavedConcreteFunction:
  """Returns the record of a gradient function, whose first argument is the op, as None.

  Raises:
    UnsupportedSavedModelError: its results are not in the order of the op's inputs.
  """
  used = [result for result in gradient.results if result is not None]
  if used != list(range(len(function.results))):
    raise UnsupportedSavedModelError(
      f"gradient function {gradient.function!r} returns the cotangents of its op in the order {used}; expected "
      f"{list(range(len(function.results)))}"
    )
  parameters = iter(function.parameters)
  cotangents = [_parameter_spec(next(parameters)) if taken else None for taken in gradient.takes]
  results = [None if result is None else _result_spec(function.results[result]) for result in gradient.results]
  return schema.SavedConcreteFunction(
    bound_inputs=bound_inputs,
    canonicalized_input_signature=encode_structure(((None, *cotangents), {}), "a gradient function"),
    output_signature=encode_structure(results, "a gradient function"),
  )


def plain_record(
  result: PyTree, bound_inputs: Sequence[int], args: tuple[PyTree, ...] = ()
) -> schema.SavedConcreteFunction:
  """Returns the record of a function of a table: what it returns, what it captures, and its positional arguments."""
  return schema.SavedConcreteFunction(
    bound_inputs=bound_inputs,
    canonicalized_input_signature=encode_structure((args, {}), "a function of a table"),
    output_signature=encode_structure(result, "a function of a table"),
  )


def bare_function(name: str, arguments: Sequence[str]) -> schema.SavedObject:
  """Returns the object of a concrete function that is called by itself, with its arguments by position."""
  message = schema.SavedBareConcreteFunction(
    concrete_function_name=name, argument_keywords=arguments, allowed_positional_arguments=len(arguments)
  )
  return schema.SavedObject(bare_concrete_function=message)


def flat_arguments(inputs: InputStructure) -> list[tuple[str, Leaf, Leaf]]:
  """Returns `(name, leaf, default)` of each leaf of a program's arguments, in flat order.

  Leaves of nested arguments have the names that TensorFlow gives them: `"x_a_0"` for `x["a"][0]`. `default` is
  `inspect.Parameter.empty` for an argument without a default, and for leaves of nested arguments.
  """
  names: list[str] = []
  leaves: list[tuple[str, Leaf, Leaf]] = []
  positional = len(inputs.args)
  arguments = list(inputs.arguments)
  for position, (argument, nested) in enumerate(zip(arguments, (*inputs.args, *_sorted_values(inputs)), strict=True)):
    parameter = inputs.signature.parameters.get(argument)
    default = inputs.defaults.get(argument, inspect.Parameter.empty) if parameter is None else parameter.default
    for path, leaf in tree.flatten_with_path(nested):
      is_own = isinstance(leaf, TensorSpec) and not path and leaf.name and position < positional
      name = leaf.name if is_own else "_".join(str(part) for part in (argument, *path))
      names.append(name)
      leaves.append((name, leaf, default if not path else inspect.Parameter.empty))
  return leaves


def function_spec(signature: inspect.Signature, what: str, *, jit_compile: bool | None = None) -> schema.FunctionSpec:
  """Returns the record of a Python signature.

  Args:
    signature: parameters and defaults.
    what: the function, for messages.
    jit_compile: the argument of `tf.function`; None if it was not given.

  Raises:
    SaveInputError: a default cannot be stored.
  """
  by_kind: dict[object, list[inspect.Parameter]] = {}
  for parameter in signature.parameters.values():
    by_kind.setdefault(parameter.kind, []).append(parameter)
  kind = inspect.Parameter
  positional = [*by_kind.get(kind.POSITIONAL_ONLY, ()), *by_kind.get(kind.POSITIONAL_OR_KEYWORD, ())]
  keyword = by_kind.get(kind.KEYWORD_ONLY, [])
  names = [p.name for p in positional]
  if names[:1] == [_SELF]:
    names[0] = f"{_SELF}_"
  defaults = tuple(_default(p, what) for p in positional if p.default is not p.empty)
  keyword_defaults = {p.name: _default(p, what) for p in keyword if p.default is not p.empty}
  fields = {
    "args": names,
    "varargs": next((p.name for p in by_kind.get(kind.VAR_POSITIONAL, ())), None),
    "varkw": next((p.name for p in by_kind.get(kind.VAR_KEYWORD, ())), None),
    "defaults": defaults or None,
    "kwonlyargs": [p.name for p in keyword],
    "kwonlydefaults": keyword_defaults or None,
    "annotations": {},
  }
  encoded = {key: encode_structure(value, f"{what}: its defaults") for key, value in fields.items()}
  compiled = {None: schema.FunctionSpec.DEFAULT, True: schema.FunctionSpec.ON, False: schema.FunctionSpec.OFF}
  return schema.FunctionSpec(
    fullargspec=named_tuple("FullArgSpec", encoded),
    input_signature=encode_structure(None, what),
    jit_compile=compiled[jit_compile],
  )


def keyword_spec(names: Sequence[str]) -> schema.FunctionSpec:
  """Returns the record of a function whose arguments are all passed by name, as those of signatures are."""
  fields: dict[str, PyTree] = {
    "args": [],
    "varargs": None,
    "varkw": None,
    "defaults": None,
    "kwonlyargs": list(names),
    "kwonlydefaults": None,
    "annotations": {},
  }
  encoded = {key: encode_structure(value, "a signature") for key, value in fields.items()}
  return schema.FunctionSpec(
    fullargspec=named_tuple("FullArgSpec", encoded), input_signature=encode_structure(None, "a signature")
  )


def _sorted_values(inputs: InputStructure) -> list[PyTree]:
  return [inputs.kwargs[name] for name in sorted(inputs.kwargs)]


def _named(leaf: object, names: Iterator[str]) -> Leaf:
  name = next(names)
  return TensorSpec(leaf.shape, leaf.dtype, name) if isinstance(leaf, TensorSpec) else leaf


def _default(parameter: inspect.Parameter, what: str) -> Leaf:
  """Returns a default as it is stored; numbers of NumPy become tensors."""
  value = parameter.default
  try:
    encode_structure(value, what)
  except SaveInputError as e:
    raise SaveInputError(f"{what}: the default of argument {parameter.name!r}: {e}") from e
  return np.asarray(value) if isinstance(value, np.generic) else value


def _parameter_spec(parameter: Any) -> TensorSpec:
  return TensorSpec(parameter.shape, parameter.dtype, parameter.name)


def _result_spec(result: Result) -> TensorSpec:
  return TensorSpec(PartialShape(None), result.dtype)
