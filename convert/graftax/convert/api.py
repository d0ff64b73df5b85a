"""TF2JAX's entry points: a TensorFlow function in, a JAX function out."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from graftax.convert._tensorflow import without_autograph
from graftax.convert.annotated import AnnotatedFunction
from graftax.convert.conversion import convert_program
from graftax.convert.errors import ConversionError
from graftax.convert.live.function import program_from_concrete_function
from graftax.convert.sources import program_from
from graftax.convert.subgraph import TensorNames, cut
from graftax.convert.variable import Variable

__all__ = [
  "convert",
  "convert_from_restored",
  "convert_functional",
  "convert_functional_from_restored",
  "convert_subgraph",
]

# Any in this module: TensorFlow ships no type information, and arguments are the caller's own structures.


@without_autograph
def convert(tf_func: Any, /, *args: Any, **kwargs: Any) -> tuple[AnnotatedFunction, dict[str, Variable]]:
  """A JAX function with the behaviour of a TensorFlow function, and its parameters.

  Args:
    tf_func: a `tf.function`, a ConcreteFunction, a signature or other function of a loaded SavedModel, a Keras model, a
      `tf.Module` or its methods, or any Python callable that TensorFlow can trace. Or, read without TensorFlow: a
      GraphDef (message or bytes), the path of a frozen graph, the path of a SavedModel.
    *args: example arguments: arrays (only shape and dtype count), `tf.TensorSpec`s, `jax.ShapeDtypeStruct`s, or Python
      values, which are fixed; a Python float or complex number stands for an input, though. A `tf.Variable` becomes one
      of the parameters, under its name, as if the function captured it; the JAX function takes None in its place.
    **kwargs: the same, by keyword. For a graph instead: `inputs=` and `outputs=`, names of tensors (one, a list, or a
      dict by the names to call them), and `variables=`, values by name where it is not frozen. For a SavedModel's path
      also: `signature=`, the name of a signature or function (by default "serving_default"), and `tags=`.

  Returns:
    `(fn, params)`. `fn(params, *args, rng=None, **kwargs)` returns `(outputs, new_params)`; `params` maps TensorFlow's
    variable names without ":0" to arrays, in the order in which the function uses them. `rng` is a JAX PRNG key, needed
    where the function draws random numbers.

  Raises:
    UnsupportedOpError: ops without a lowering; one error lists all.
    ConversionError: `tf_func` is none of the above, or the arguments do not fit it.
    TensorFlowNotFoundError: TensorFlow is not installed, and `tf_func` is a live function.
  """
  return convert_program(program_from(tf_func, args, kwargs))


@without_autograph
def convert_subgraph(
  tf_func: Any,
  /,
  inputs: TensorNames,
  outputs: TensorNames | None = None,
  *,
  args: tuple[Any, ...] = (),
  kwargs: Mapping[str, Any] | None = None,
) -> tuple[AnnotatedFunction, dict[str, Variable]]:
  """The part of a TensorFlow function between some of its tensors, as `convert` returns it.

  What only the given tensors need is not run. So a model that begins with work for the host (reading text or images)
  can be converted from where the numbers begin; the error for its unsupported ops names the tensors.

  Args:
    tf_func: what `convert` takes, or a `Program`, such as a SavedModel's `.program(name)`.
    inputs: names of tensors (`"node"`, `"node:1"`) to become the inputs: one, several in the order in which they are
      passed, or a dict by the names under which they are passed. Nodes of called functions are named `call/node`.
      Inputs of the whole function that are still needed must be among them.
    outputs: names of the tensors to return, likewise; by default the function's own results in their own structure.
    args: example arguments for the whole function, where it must be traced.
    kwargs: the same, by keyword.

  Raises:
    ConversionError: there is no such tensor, an input is missing, or what `convert` raises.
    UnsupportedOpError: the part has ops without a lowering.
  """
  return convert_program(cut(program_from(tf_func, args, kwargs or {}), inputs, outputs))


@without_autograph
def convert_functional(tf_func: Any, /, *args: Any, **kwargs: Any) -> AnnotatedFunction:
  """A JAX function from a TensorFlow function without variables: called as the original, with only its outputs
  returned.

  See `convert` for the arguments.

  Raises:
    ConversionError: the function has variables, beside what `convert` raises.
  """
  return _functional(*convert(tf_func, *args, **kwargs))


@without_autograph
def convert_from_restored(tf_func: Any) -> tuple[AnnotatedFunction, dict[str, Variable]]:
  """`convert` for a function of a SavedModel loaded by TensorFlow that was traced exactly once, without tracing again.

  Raises:
    ConversionError: it has no, or several, concrete functions; the message lists them.
  """
  return convert_program(program_from_concrete_function(_only_concrete(tf_func), tf_func))


@without_autograph
def convert_functional_from_restored(tf_func: Any) -> AnnotatedFunction:
  """`convert_functional` for a function of a SavedModel loaded by TensorFlow that was traced exactly once."""
  return _functional(*convert_from_restored(tf_func))


def _only_concrete(tf_func: Any) -> Any:
  if hasattr(tf_func, "captured_inputs"):
    return tf_func
  concretes = getattr(tf_func, "concrete_functions", None)
  if concretes is None:
    raise ConversionError(
      f"convert_from_restored: got a {type(tf_func).__name__}; expected a function of a SavedModel loaded with "
      f"tf.saved_model.load. Use convert(fn, *args) for a function that must be traced."
    )
  if len(concretes) != 1:
    signatures = "".join(f"\n  {concrete.structured_input_signature}" for concrete in concretes)
    raise ConversionError(
      f"convert_from_restored: expected one concrete function, found {len(concretes)}:{signatures}\n"
      f"Choose one with convert(fn, *args)."
    )
  return concretes[0]


def _functional(function: AnnotatedFunction, params: Mapping[str, Variable]) -> AnnotatedFunction:
  if params:
    raise ConversionError(
      f"convert_functional: {function.name} has variables {list(params)!r}; use convert, which returns them as "
      f"parameters."
    )

  call = _WithoutParameters(function.fn)
  return AnnotatedFunction(call, function.inputs, function.outputs, function.name, function.doc, has_params=False)


@dataclasses.dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class _WithoutParameters:
  """A function of no parameters, called without them."""

  fn: Callable[..., Any]

  def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
    outputs, _ = self.fn({}, *args, **kwargs)
    return outputs
