"""Makes a `Program` of a live TensorFlow function: traces it, then reads its graph, captures and structure."""

import functools
import inspect
from collections.abc import Mapping

from graftax.convert._tensorflow import TfFunction, import_tensorflow
from graftax.convert.errors import ConversionError
from graftax.convert.gc_pause import without_garbage_collection
from graftax.convert.live.arguments import keras_arguments, traceable, with_marked_arguments
from graftax.convert.live.captures import read_captures
from graftax.convert.live.gradients import LiveGradients
from graftax.convert.live.graph_variables import read_graph_variables
from graftax.convert.live.structures import input_structure, output_structure
from graftax.convert.live.tables import with_graph_tables
from graftax.convert.live.variables import LiveVariable, LiveVariables
from graftax.convert.options import current_options
from graftax.convert.program import Program
from graftax.convert.pytrees import PyTree
from graftax.graphdef_ir import function_from_proto, graph_from_proto

__all__ = ["EXPECTED", "program_from_concrete_function", "program_with_live_variables", "trace"]

EXPECTED = (
  "expected a tf.function, a ConcreteFunction, a function of a loaded SavedModel, a Keras model, a tf.Module with "
  "__call__, a Python function of tensors, a GraphDef, or the path of a SavedModel or frozen graph"
)

_PURPOSE = "Converting a TensorFlow function"

# The name that TensorFlow gives to objects without a name, such as modules and partial functions.
_NAMELESS = "function"


def trace(
  function: TfFunction, args: tuple[PyTree, ...], kwargs: Mapping[str, PyTree]
) -> tuple[TfFunction, TfFunction]:
  """Returns the ConcreteFunction of `function` for these arguments, and the function that TensorFlow traced.

  Args:
    function: a `tf.function`, a ConcreteFunction (already traced, so that arguments are ignored), a function restored
      from a SavedModel, or any Python callable that TensorFlow can trace: a Keras model, a method, a `tf.Module`.
      AutoGraph is used if a plain Python function has conditions on tensors.
    args: example arguments: arrays, `tf.TensorSpec`s or JAX shape structs, nested as the function expects. A Python
      float or complex number becomes a float32 or complex64 input; other Python values are fixed. A Keras model that
      was built needs no arguments.
    kwargs: example arguments by keyword.

  Raises:
    ConversionError: `function` is not a TensorFlow function, or an argument has no spec, or a ConcreteFunction has no
      argument of that name.
  """
  if not callable(function):
    raise ConversionError(
      f"convert: got a {type(function).__name__}, which cannot be called{_parts(function)}; {EXPECTED}."
    )
  tf = import_tensorflow(
    _PURPOSE, instead="save the model and read it with graftax.savedmodel_io, which does not need TensorFlow"
  )
  if isinstance(function, tf.types.experimental.ConcreteFunction):
    _check_names(function, kwargs)
    return function, None
  if not args and not kwargs:
    args = keras_arguments(function)
  traced, (specs, named_specs) = with_marked_arguments(tf, function, traceable(tf, (tuple(args), dict(kwargs))))
  if hasattr(traced, "get_concrete_function"):
    return traced.get_concrete_function(*specs, **named_specs), function
  try:
    return tf.function(traced, autograph=False).get_concrete_function(*specs, **named_specs), function
  except tf.errors.OperatorNotAllowedInGraphError:
    return tf.function(traced).get_concrete_function(*specs, **named_specs), function


def _check_names(concrete: TfFunction, kwargs: Mapping[str, PyTree]) -> None:
  """Raises ConversionError if a ConcreteFunction has no argument of a given name, such as a misplaced option."""
  _, named = concrete.structured_input_signature
  known = {*named, *getattr(getattr(concrete, "function_type", None), "parameters", ())}
  unknown = sorted(kwargs.keys() - known)
  if unknown:
    raise ConversionError(
      f"convert: the ConcreteFunction {concrete.name!r} has the arguments {sorted(known)}; got {unknown}. Options are "
      "given with graftax.convert.override_config, or to convert_subgraph as options=."
    )


def _parts(function: TfFunction) -> str:
  """Returns a hint that names the `tf.function` methods of an object that cannot be called."""
  names = [
    name for name in dir(type(function)) if hasattr(getattr(type(function), name, None), "get_concrete_function")
  ]
  return f" itself, but has the tf.functions {names!r}" if names else ""


def program_from_concrete_function(concrete: TfFunction, source: TfFunction = None) -> Program:
  """Returns the `Program` of a ConcreteFunction, with the current values of its variables.

  Args:
    concrete: the ConcreteFunction.
    source: the function that it was traced from, for its signature and documentation.

  Raises:
    ConversionError: an argument, result or capture has no JAX counterpart.
  """
  program, _ = program_with_live_variables(concrete, source)
  return with_graph_tables(import_tensorflow(_PURPOSE), program)


def program_with_live_variables(
  concrete: TfFunction, source: TfFunction = None
) -> tuple[Program, dict[str, LiveVariable]]:
  """Returns the `Program` of a ConcreteFunction, and by name its variables whose values can be read again later.

  Variables that nodes of the graph create, as in a restored TF1 model, are not among the latter. See
  `program_from_concrete_function`.
  """
  with without_garbage_collection():
    return _read(concrete, source)


def _read(concrete: TfFunction, source: TfFunction) -> tuple[Program, dict[str, LiveVariable]]:
  tf = import_tensorflow(_PURPOSE)
  graph = graph_from_proto(concrete.graph.as_graph_def())
  function = function_from_proto(concrete.function_def, library=graph.library)
  skip_values = current_options().skip_variables_evaluation_inside_tf_tracing
  variables = LiveVariables(tf, skip_values=skip_values)
  captures = read_captures(tf, concrete, function, graph, variables)
  gradients = LiveGradients(concrete, graph.library, variables)
  library = graph.library.replace(gradients.functions)
  function, library = read_graph_variables(tf, function, library, graph.signatures, variables)
  program = Program(
    name=_python_name(concrete, source),
    doc=_doc(source),
    function=function,
    library=library.with_late(gradients),
    signatures=graph.signatures,
    captures=captures,
    variables=dict(variables.values),
    gradients=gradients,
    inputs=input_structure(tf, concrete, source, function),
    outputs=output_structure(tf, concrete),
  )
  return program, variables.live


def _python_name(concrete: TfFunction, source: TfFunction) -> str:
  name: str = concrete.name.decode() if isinstance(concrete.name, bytes) else concrete.name
  name = name.removeprefix("__inference_").rpartition("_")[0] or name
  if source is None or (name.isidentifier() and name != _NAMELESS):
    return name
  while isinstance(source, functools.partial):
    source = source.func
  return getattr(source, "__name__", type(source).__name__)


def _doc(source: TfFunction) -> str | None:
  if isinstance(source, functools.partial):
    return _doc(source.func)
  if source is None or inspect.isroutine(source):
    return inspect.getdoc(source) if source is not None else None
  return inspect.getdoc(getattr(source, "python_function", type(source).__call__))
