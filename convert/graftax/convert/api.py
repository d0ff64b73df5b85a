"""The functions that convert TensorFlow functions to JAX functions; names and results are those of TF2JAX."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from graftax.convert._tensorflow import without_autograph
from graftax.convert.annotated import AnnotatedFunction
from graftax.convert.conversion import convert_program
from graftax.convert.errors import ConversionError
from graftax.convert.live.function import program_from_concrete_function
from graftax.convert.options import ConvertOptions
from graftax.convert.pytrees import PyTree
from graftax.convert.shown_names import shown
from graftax.convert.sources.programs import program_from
from graftax.convert.subgraph import TensorNames, cut
from graftax.convert.variable import Variable

__all__ = [
  "convert",
  "convert_from_restored",
  "convert_functional",
  "convert_functional_from_restored",
  "convert_subgraph",
]


@without_autograph
def convert(tf_func: Any, /, *args: PyTree, **kwargs: PyTree) -> tuple[AnnotatedFunction, dict[str, Variable]]:
  """Returns a JAX function that computes what a TensorFlow function computes, and its parameters.

  Args:
    tf_func: a `tf.function`, a ConcreteFunction, a signature or other function of a loaded SavedModel, a Keras model, a
      `tf.Module` or its methods, or any Python callable that TensorFlow can trace. TensorFlow is not needed to convert
      a GraphDef (message or bytes), or the path of a frozen graph (`.pb`, `.pbtxt`), a SavedModel, or the `.meta` file
      of a TF1 checkpoint.
    *args: example arguments. Arrays (only shape and dtype count), `tf.TensorSpec`s, `jax.ShapeDtypeStruct`s and Python
      floats and complex numbers become inputs. Other Python values are fixed by the conversion. A `tf.Variable` becomes
      one of the parameters, under its name, as if the function captured it; pass None in its place to the JAX function.
    **kwargs: example arguments by keyword. For a graph, pass instead `inputs=` and `outputs=`, names of tensors (one, a
      list, or a dict from argument or result name to tensor name), and `variables=`, values by name, if it is not
      frozen. `extra_ops=`, an OpList message or its bytes, declares ops that TensorFlow does not have; a graph that
      uses their results only as inputs of other ops needs none. For the path of a SavedModel, `signature=` is the name
      of a signature or function (by default "serving_default"), and `tags=` selects a graph. For both,
      `allow_files_in=` names folders whose files the model may read: by default a SavedModel reads those of its own
      folder, and a graph none.

  Returns:
    `(fn, params)`. `fn(params, *args, rng=None, **kwargs)` returns `(outputs, new_params)`; `params` maps TensorFlow's
    variable names without ":0" to arrays, in the order in which the function uses them. `rng` is a JAX PRNG key, which
    is needed if the function draws random numbers.

  Raises:
    UnsupportedOpError: some ops have no lowering; the message lists all of them.
    ConversionError: `tf_func` cannot be converted, or the arguments do not fit it.
    LibraryNotFoundError: TensorFlow is not installed, and `tf_func` is a live function.

  Example:
    >>> import numpy as np
    >>> from graftax.convert import convert
    >>> graph = b'''
    ... node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
    ... node { name: "w" op: "VarHandleOp" attr { key: "dtype" value { type: DT_FLOAT } }
    ...        attr { key: "shape" value { shape {} } } }
    ... node { name: "read" op: "ReadVariableOp" input: "w" attr { key: "dtype" value { type: DT_FLOAT } } }
    ... node { name: "y" op: "Mul" input: "x" input: "read" attr { key: "T" value { type: DT_FLOAT } } }
    ... '''
    >>> fn, params = convert(graph, inputs="x", outputs="y", variables={"w": np.float32(3)})
    >>> outputs, new_params = fn(params, 2.0)
    >>> float(outputs)
    6.0
  """
  return convert_program(program_from(tf_func, args, kwargs))


@without_autograph
def convert_subgraph(
  tf_func: Any,
  /,
  inputs: TensorNames | None,
  outputs: TensorNames | None = None,
  *,
  options: ConvertOptions | None = None,
  args: tuple[PyTree, ...] = (),
  kwargs: Mapping[str, PyTree] | None = None,
) -> tuple[AnnotatedFunction, dict[str, Variable]]:
  """Converts the part of a TensorFlow function between some of its tensors; returns what `convert` returns.

  Nodes that only compute the given inputs do not run. A model that begins with work for the host (reading text or
  images) can therefore be converted from the first numeric tensors on. `convert` names these in its error for
  unsupported ops.

  Args:
    tf_func: anything that `convert` accepts, or a `Program`, such as the result of `SavedModel.program`.
    inputs: names of the tensors (`"node"`, `"node:1"`) that become inputs: one name, a list for positional arguments,
      or a dict from argument name to tensor name. Nodes of called functions are named `call/node`. Inputs of the whole
      function that are still needed must be among them. None keeps the inputs of the whole function.
    outputs: names of the tensors to return, in the same form; by default the results of the whole function.
    options: the options of the conversion; by default the current ones.
    args: example arguments for the whole function, if it must be traced.
    kwargs: example arguments by keyword.

  Raises:
    ConversionError: the function does not have a tensor of that name, an input is missing, or `convert` would raise it
      for the whole function.
    UnsupportedOpError: the part has ops without a lowering.

  Example:
    >>> from graftax.convert import convert_subgraph
    >>> graph = b'''
    ... node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
    ... node { name: "y" op: "Neg" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
    ... node { name: "z" op: "Square" input: "y" attr { key: "T" value { type: DT_FLOAT } } }
    ... '''
    >>> fn, _ = convert_subgraph(graph, "y", "z", kwargs={"inputs": "x", "outputs": "z"})
    >>> fn({}, 3.0)[0]
    Array(9., dtype=float32)
  """
  return convert_program(cut(program_from(tf_func, args, kwargs or {}), inputs, outputs), options)


@without_autograph
def convert_functional(tf_func: Any, /, *args: PyTree, **kwargs: PyTree) -> AnnotatedFunction:
  """Converts a TensorFlow function that has no variables.

  The JAX function takes no parameters and returns only the outputs. See `convert` for the arguments.

  Args:
    tf_func: as for `convert`.
    *args: example arguments, as for `convert`.
    **kwargs: as for `convert`.

  Returns:
    `fn` with `fn(*args, rng=None, **kwargs) -> outputs`.

  Raises:
    ConversionError: the function has variables, or `convert` raises it.
    UnsupportedOpError: some ops have no lowering; the message lists all of them.

  Example:
    >>> from graftax.convert import convert_functional
    >>> graph = b'''
    ... node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
    ... node { name: "y" op: "Neg" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
    ... '''
    >>> convert_functional(graph, inputs="x", outputs="y")(2.0)
    Array(-2., dtype=float32)
  """
  return _functional(*convert(tf_func, *args, **kwargs))


@without_autograph
def convert_from_restored(tf_func: Any) -> tuple[AnnotatedFunction, dict[str, Variable]]:
  """Converts a function of a SavedModel that TensorFlow loaded and that has exactly one trace.

  Raises:
    ConversionError: the function has no trace or several; the message lists them.
  """
  return convert_program(program_from_concrete_function(_only_concrete(tf_func), tf_func))


@without_autograph
def convert_functional_from_restored(tf_func: Any) -> AnnotatedFunction:
  """Does what `convert_from_restored` does, for a function that has no variables; see `convert_functional`."""
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
      f"Found {len(concretes)} concrete functions; convert_from_restored takes a function with one:{signatures}\n"
      f"Choose one with convert(fn, *args)."
    )
  return concretes[0]


def _functional(function: AnnotatedFunction, params: Mapping[str, Variable]) -> AnnotatedFunction:
  if params:
    raise ConversionError(
      f"convert_functional: {function.name} has variables {shown(params)}; use convert, which returns them as "
      f"parameters."
    )

  call = _WithoutParameters(function.fn)
  return AnnotatedFunction(call, function.inputs, function.outputs, function.name, function.doc, has_params=False)


@dataclasses.dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class _WithoutParameters:
  """Calls a converted function that has no parameters."""

  fn: Callable[..., Any]

  def __call__(self, /, *args: PyTree, **kwargs: PyTree) -> PyTree:
    outputs, _ = self.fn({}, *args, **kwargs)
    return outputs
