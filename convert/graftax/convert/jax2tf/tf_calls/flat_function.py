"""A TensorFlow function with flat tensors as arguments and results."""

from collections.abc import Callable
from typing import Any

from graftax.convert._tensorflow import TensorFlow, TfFunction, TfTensor, without_autograph
from graftax.convert.errors import ConversionError
from graftax.convert.jax2tf.live.arguments import flatten
from graftax.convert.jax2tf.live.dtypes import jax_dtype
from graftax.convert.pytrees import Leaf, PyTree

__all__ = ["FlatFunction"]


class FlatFunction:
  """Calls a TensorFlow function of pytrees with flat tensors.

  Attributes:
    name: the name of the function.
    result_structure: the structure of the result of the last call.
  """

  def __init__(self, tf: TensorFlow, function: Callable[..., Any], structure: PyTree):
    """Creates the function.

    Args:
      tf: TensorFlow.
      function: the function.
      structure: the structure of `(args, kwargs)`.
    """
    self._tf = tf
    self._function = function
    self._structure = structure
    self.name = str(getattr(function, "__name__", None) or type(function).__name__)
    self.result_structure: PyTree = None

  def __call__(self, *tensors: TfTensor) -> list[TfTensor]:
    """Returns the leaves of the result as tensors.

    Raises:
      ConversionError: a result is not a tensor, or JAX does not have its dtype.
    """
    args, kwargs = self._structure.unflatten(tensors)
    leaves, structure = flatten(self._tf, (self._function(*args, **kwargs),), {})
    self.result_structure = structure
    return [self._tensor(leaf, position) for position, leaf in enumerate(leaves)]

  def nested(self, leaves: list[Leaf]) -> PyTree:
    """Returns flat results in the structure of the last call."""
    (result,), _ = self.result_structure.unflatten(leaves)
    return result

  def traced(self, specs: list[Any], **options: Any) -> TfFunction:
    """Returns a ConcreteFunction of flat tensors.

    AutoGraph is used if the function has conditions or loops on tensors that TensorFlow cannot trace without it.

    Args:
      specs: a `tf.TensorSpec` for each argument.
      **options: options of `tf.function`.
    """
    tf = self._tf
    try:
      return tf.function(self._python_function(), autograph=False, **options).get_concrete_function(*specs)
    except tf.errors.OperatorNotAllowedInGraphError:
      # Only the caller's own code is rewritten: it becomes a tf.function inside of ours.
      inner = FlatFunction(tf, tf.function(self._function), self._structure)
      inner.name = self.name
      concrete = tf.function(inner._python_function(), autograph=False, **options).get_concrete_function(*specs)
      self._function, self.result_structure = inner._function, inner.result_structure
      return concrete

  def _python_function(self) -> Callable[..., Any]:
    """Returns the function as one with a name of its own, which TensorFlow gives to the graph."""

    @without_autograph
    def call(*tensors: TfTensor) -> list[TfTensor]:
      return self(*tensors)

    call.__name__ = self.name if self.name.isidentifier() else "function"
    return call

  def _tensor(self, leaf: Leaf, position: int) -> TfTensor:
    tf = self._tf
    where = f"call_tf: {self.name}: result {position}"
    if isinstance(leaf, tf.RaggedTensor | tf.SparseTensor):
      parts = "flat_values and row_splits" if isinstance(leaf, tf.RaggedTensor) else "indices and values"
      raise ConversionError(f"{where} is a {type(leaf).__name__}, which JAX does not have; return its {parts}.")
    try:
      tensor = tf.convert_to_tensor(leaf)
    except (TypeError, ValueError) as e:
      raise ConversionError(
        f"{where} is {leaf!r:.80}, a {type(leaf).__name__}, which is not a tensor; expected tensors, variables or "
        f"numbers, nested in pytrees."
      ) from e
    try:
      jax_dtype(tensor.dtype)
    except TypeError as e:
      raise ConversionError(
        f"{where} has dtype {tensor.dtype.name}, which JAX does not have; expected numbers or booleans."
      ) from e
    return tensor
