"""Decides for each call of a TensorFlow function between TensorFlow itself and the converted function."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from graftax.convert._tensorflow import TensorFlow, import_tensorflow
from graftax.convert.jax2tf.live.arguments import flatten
from graftax.convert.jax2tf.live.nodes import open_shape
from graftax.convert.jax2tf.tf_calls.arguments import argument_arrays
from graftax.convert.jax2tf.tf_calls.converted import ConvertedCall, convert_call
from graftax.convert.jax2tf.tf_calls.declared_results import DeclaredResults
from graftax.convert.jax2tf.tf_calls.eager import run_eagerly
from graftax.convert.jax2tf.tf_calls.flat_function import FlatFunction
from graftax.convert.options import current_options
from graftax.convert.pytrees import Leaf, PyTree
from graftax.convert.trace_state import is_outside_of_transformations
from graftax.ops_jax import Array, Value

__all__ = ["Calls"]


class Calls:
  """Calls a TensorFlow function and keeps its conversions, one for each structure, shapes and dtypes of arguments."""

  def __init__(self, function: Callable[..., Any], declared: DeclaredResults | None):
    self._function = function
    self._declared = declared
    self._converted: dict[Any, ConvertedCall] = {}
    self._lock = threading.RLock()

  def call(self, args: tuple[PyTree, ...], kwargs: Mapping[str, PyTree]) -> PyTree:
    """Returns the result, computed by TensorFlow in eager code and by the converted function in transformations."""
    tf, structure, arrays = self._prepared(args, kwargs)
    if is_outside_of_transformations() and not any(isinstance(array, jax.core.Tracer) for array in arrays):
      flat = FlatFunction(tf, self._function, structure)
      return self._packed(flat, run_eagerly(tf, flat, arrays))
    converted = self._find(tf, structure, arrays)
    return self._packed(converted.flat, converted.results(arrays))

  def call_explicitly(
    self, variables: Mapping[str, Value], args: tuple[PyTree, ...], kwargs: Mapping[str, PyTree]
  ) -> tuple[PyTree, dict[str, Value]]:
    """Returns the result and the new values of the variables, computed by the converted function."""
    tf, structure, arrays = self._prepared(args, kwargs)
    converted = self._find(tf, structure, arrays)
    results, variables = converted.results_and_variables(variables, arrays)
    return self._packed(converted.flat, results), variables

  def variables(self, args: tuple[PyTree, ...], kwargs: Mapping[str, PyTree]) -> dict[str, Value]:
    """Returns the current values of the variables that a call with these arguments uses."""
    tf, structure, arrays = self._prepared(args, kwargs)
    return self._find(tf, structure, arrays).current_values(tf, arrays)

  def _prepared(self, args: tuple[PyTree, ...], kwargs: Mapping[str, PyTree]) -> tuple[TensorFlow, PyTree, list[Array]]:
    """Returns TensorFlow, the structure of the arguments, and the flat arguments as arrays."""
    tf = import_tensorflow("call_tf")
    leaves, structure = flatten(tf, args, kwargs)
    return tf, structure, argument_arrays(tf, leaves, self._function, args, kwargs)

  def _find(self, tf: TensorFlow, structure: object, arrays: Sequence[Array]) -> ConvertedCall:
    # Symbolic dimensions are open in TensorFlow, so that functions that differ in their names share a conversion.
    specs = [tf.TensorSpec(open_shape(array), array.dtype) for array in arrays]
    key = structure, tuple((tuple(s.shape), s.dtype) for s in specs), jax.config.jax_enable_x64, current_options()
    with self._lock:
      if key not in self._converted:
        # TensorFlow may call functions of jax2tf.convert, and what is kept must not hold tracers.
        with jax.core.eval_context():
          self._converted[key] = convert_call(tf, FlatFunction(tf, self._function, structure), specs)
      return self._converted[key]

  def _packed(self, flat: FlatFunction, results: list[Leaf]) -> PyTree:
    result = flat.nested(results)
    if self._declared is not None:
      self._declared.check(results, jax.tree.structure(result), flat.name)
    return result
