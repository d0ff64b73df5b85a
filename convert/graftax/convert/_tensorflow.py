"""The only import of TensorFlow: it happens when a live TensorFlow object is converted, or when one is made."""

import contextlib
import importlib
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from graftax.graphdef_ir import optional_library

# TensorFlow ships no type information, so a type checker takes each of these for `Any`.
TensorFlow: TypeAlias = Any
"""The `tensorflow` module."""
TfTensor: TypeAlias = Any
"""A tensor, eager or of a graph, or what TensorFlow reads as one: a variable, the handle of a resource."""
TfFunction: TypeAlias = Any
"""A `tf.function`, or a ConcreteFunction of one."""
TfGraph: TypeAlias = Any
"""A `tf.Graph`, such as the FuncGraph of a ConcreteFunction."""
TfDType: TypeAlias = Any
"""A `tf.DType`."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


def without_autograph(function: _Function) -> _Function:
  """Marks `function` so that AutoGraph does not rewrite it when a `tf.function` calls it.

  `tf.autograph.experimental.do_not_convert` sets the same mark, but needs TensorFlow.
  """
  function.autograph_info__ = True  # type: ignore[attr-defined]
  return function


def import_tensorflow(purpose: str, *, instead: str = "") -> TensorFlow:
  """Returns the `tensorflow` module.

  Args:
    purpose: what needs TensorFlow, for the message.
    instead: what would work without it, for the message.

  Raises:
    LibraryNotFoundError: TensorFlow cannot be imported.
  """
  with optional_library(purpose, "tensorflow", instead=instead):
    return importlib.import_module("tensorflow")


def import_gradient_registry() -> Any:
  """Returns the registry that `tf.RegisterGradient` writes to; TensorFlow has no public function that reads it."""
  return importlib.import_module("tensorflow.python.framework.ops").gradient_registry


def import_kernel_registry() -> Any:
  """Returns the module that lists the kernels of ops; TensorFlow has no public function for that."""
  return importlib.import_module("tensorflow.python.framework.kernels")


def import_xla_sharding() -> Any:
  """Returns the module that annotates tensors with shardings; TensorFlow has no public functions for that."""
  return importlib.import_module("tensorflow.python.compiler.xla.experimental.xla_sharding")


def call_flat(concrete: TfFunction, tensors: Sequence[TfTensor]) -> Any:
  """Returns the results of a ConcreteFunction without captures, called with one tensor for each flat argument.

  The public call checks each argument in Python, which takes 80 us an argument.
  """
  call = getattr(concrete, "_call_flat", None)
  return concrete(*tensors) if call is None else call(list(tensors), concrete.captured_inputs)


def import_tape_records() -> Any:
  """Returns the module that tells whether a tape records; TensorFlow has no public function for that."""
  return importlib.import_module("tensorflow.python.eager.record")


def outside_of_graphs(tf: TensorFlow) -> contextlib.AbstractContextManager[None]:
  """Returns a context in which TensorFlow executes eagerly, also inside of a `tf.function` that is being traced.

  `tf.init_scope` would stop all gradient tapes, so that a function that computes gradients with a tape of its own gets
  None from it.
  """
  if tf.executing_eagerly():
    return contextlib.nullcontext()
  scope: contextlib.AbstractContextManager[None] = tf.__internal__.eager_context.eager_mode()
  return scope


def define_functions(library: Any) -> None:
  """Defines the functions of a FunctionDefLibrary for eager code.

  `tf.graph_util.import_graph_def` defines them in the graph alone, where functions of that graph do not find them when
  they run.
  """
  context = importlib.import_module("tensorflow.python.eager.context").context()
  for function in library.function:
    context.add_function_def(function)


def in_save_context() -> bool:
  """Returns whether `tf.saved_model.save` is running in this thread; no public function of TensorFlow tells."""
  found: bool = importlib.import_module("tensorflow.python.saved_model.save_context").in_save_context()
  return found
