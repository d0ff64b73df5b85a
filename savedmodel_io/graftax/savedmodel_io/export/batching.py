"""Functions of TensorFlow with default inputs, and inputs that are repeated to one batch size."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax

from graftax.savedmodel_io.errors import SaveInputError
from graftax.savedmodel_io.export._tensorflow import TensorFlow, TfFunction, TfTensor, import_tensorflow
from graftax.savedmodel_io.export.input_specs import (
  InputSpec,
  TensorSpecWithDefault,
  checked_signature,
  default_values,
  named_specs,
)
from graftax.savedmodel_io.pytrees import PyTree

__all__ = ["make_auto_batching_function", "with_default_args"]


def with_default_args(
  tf_fn: Callable[..., Any], input_signature: Sequence[PyTree], *, where: str = "with_default_args"
) -> TfFunction:
  """Returns a `tf.function` with an input signature and defaults.

  Args:
    tf_fn: a function of tensors.
    input_signature: a spec for each argument, nested as the argument: `tf.TensorSpec`, `TensorSpecWithDefault`, or
      anything with `shape` and `dtype`. Names that repeat are numbered.
    where: what the function is for, for messages.

  Raises:
    LibraryNotFoundError: TensorFlow is not installed.
    SaveInputError: the input signature contradicts itself.

  Example:
    >>> import tensorflow as tf
    >>> spec = TensorSpecWithDefault(tf.TensorSpec([None], tf.int32), [1, 2])
    >>> int(with_default_args(tf.reduce_sum, [spec])())
    3
  """
  tf = import_tensorflow(where)
  signature = checked_signature(input_signature, where)
  # TensorFlow saves a default only if it is a tensor.
  defaults = [
    value if value is inspect.Parameter.empty else jax.tree.map(tf.convert_to_tensor, value)
    for value in default_values(signature, where)
  ]
  specs = named_specs(signature, where, number_repeated=True)

  def call(*inputs: TfTensor) -> TfTensor:
    return tf_fn(*inputs)

  kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
  parameters = [inspect.Parameter(f"inputs_{i}", kind, default=value) for i, value in enumerate(defaults)]
  call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
  return tf.function(call, input_signature=jax.tree.map(lambda spec: _tensor_spec(tf, spec), specs), autograph=False)


def make_auto_batching_function(input_signature: Sequence[PyTree]) -> TfFunction:
  """Returns a `tf.function` that returns its inputs with one batch size.

  Each input has the batch as its first dimension. Inputs of batch size 1 are repeated to the batch size of the primary
  ones. An input is primary if it has no default, or if its `TensorSpecWithDefault` says so.

  Args:
    input_signature: a spec for each input, nested as the input. Names that repeat are numbered.

  Returns:
    A function of the inputs, which returns a tuple of them. It raises `tf.errors.InvalidArgumentError` if primary
    inputs have several batch sizes, or another input has neither theirs nor 1.

  Raises:
    LibraryNotFoundError: TensorFlow is not installed.
    SaveInputError: no input is primary, one is a scalar, or the signature contradicts itself.

  Example:
    >>> import tensorflow as tf
    >>> weight = TensorSpecWithDefault(tf.TensorSpec([None], tf.float32, "weight"), [1.0])
    >>> batched = make_auto_batching_function([tf.TensorSpec([None], tf.int32, "x"), weight])
    >>> batched([1, 2])[1].numpy()
    array([1., 1.], dtype=float32)
  """
  where = "make_auto_batching_function"
  tf = import_tensorflow(where)
  signature = checked_signature(input_signature, where)
  specs = jax.tree.leaves(named_specs(signature, where, number_repeated=True))
  primary = [not isinstance(leaf, TensorSpecWithDefault) or leaf.is_primary for leaf in jax.tree.leaves(signature)]
  if not any(primary):
    raise SaveInputError(
      f"{where}: no primary input tensors among {[spec.name for spec in specs]}; an input is primary if it has no "
      "default, or if its TensorSpecWithDefault has is_primary=True"
    )
  scalars = [spec.name for spec in specs if spec.shape == ()]
  if scalars:
    raise SaveInputError(f"{where}: the inputs {scalars} are scalars; expected a first dimension for the batch")

  def batched(*inputs: TfTensor) -> TfTensor:
    leaves, structure = jax.tree.flatten(inputs)
    size = tf.shape(leaves[primary.index(True)])[0]
    found = [
      _primary(tf, leaf, size) if is_primary else _repeated(tf, leaf, size, spec.name)
      for leaf, is_primary, spec in zip(leaves, primary, specs, strict=True)
    ]
    return jax.tree.unflatten(structure, found)

  return with_default_args(batched, signature, where=where)


def _primary(tf: TensorFlow, tensor: TfTensor, size: TfTensor) -> TfTensor:
  message = "All primary input tensors must have the same batch size."
  with tf.control_dependencies([tf.debugging.assert_equal(tf.shape(tensor)[0], size, message)]):
    return tf.identity(tensor)


def _repeated(tf: TensorFlow, tensor: TfTensor, size: TfTensor, name: str) -> TfTensor:
  own = tf.shape(tensor)[0]
  message = f"The batch size of {name!r} must be 1 or the same as that of the primary tensors."
  fits = tf.logical_or(tf.equal(own, 1), tf.equal(own, size))
  with tf.control_dependencies([tf.debugging.Assert(fits, [message, own, size])]):
    return tf.repeat(tensor, tf.where(tf.equal(own, size), 1, size), axis=0)


def _tensor_spec(tf: TensorFlow, spec: InputSpec) -> Any:
  dtype = tf.string if spec.dtype == object else spec.dtype
  return tf.TensorSpec(spec.shape, dtype, spec.name)
