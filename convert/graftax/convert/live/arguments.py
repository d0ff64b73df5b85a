"""Prepares example arguments for tracing: arrays become specs, so that their values do not become constants."""

import inspect
from typing import Any

import jax
import numpy as np
import tree

from graftax.convert._tensorflow import TensorFlow, TfDType, TfFunction
from graftax.convert.errors import ConversionError
from graftax.convert.pytrees import Leaf, PyTree
from graftax.convert.structures.composite import CompositeTensor, IndexedSlices, RaggedTensor, SparseTensor
from graftax.convert.structures.nested import VariableArgument
from graftax.graphdef_ir import TensorSpec

__all__ = ["keras_arguments", "marked_argument", "traceable", "with_marked_arguments"]

_VARIABLE = "\0graftax variable "
_DTYPE = "\0graftax dtype "


def traceable(tf: TensorFlow, argument: PyTree) -> PyTree:
  """Returns a nested argument in the form that `get_concrete_function` expects.

  Raises:
    ConversionError: the dtype of a leaf does not exist in TensorFlow.
  """
  return tree.map_structure(lambda leaf: _traceable(tf, leaf), argument)


def with_marked_arguments(tf: TensorFlow, function: TfFunction, arguments: PyTree) -> tuple[PyTree, PyTree]:
  """Returns a function that closes over some arguments of `function`, and its arguments, with marks in place of them.

  Each `tf.Variable` among the arguments becomes a parameter, as captured variables do. Dtypes of NumPy are closed over
  because TensorFlow does not keep them in the signature of a function. A mark keeps the position of an argument, so the
  signature does not change; `marked_argument` recognizes the mark.

  Args:
    tf: TensorFlow.
    function: a Python callable or `tf.function`.
    arguments: `(args, kwargs)`, as `traceable` returns them.
  """
  marks: dict[int, str] = {}
  by_mark: dict[str, PyTree] = {}
  for leaf in tree.flatten(arguments):
    dtype = _dtype_argument(leaf)
    name = leaf.name if isinstance(leaf, tf.Variable) else None if dtype is None else dtype.name
    if name is not None:
      # Marks are strings because TensorFlow keeps strings in the signature of a function.
      kind = _VARIABLE if dtype is None else _DTYPE
      mark = marks.setdefault(id(leaf), f"{kind}{len(marks)}/{name}")
      by_mark[mark] = leaf
  if not marks:
    return function, arguments

  def call(*args: PyTree, **kwargs: PyTree) -> PyTree:
    args, kwargs = tree.map_structure(
      lambda leaf: by_mark.get(leaf, leaf) if isinstance(leaf, str) else leaf, (args, kwargs)
    )
    return function(*args, **kwargs)

  call.__name__ = getattr(function, "__name__", type(function).__name__)
  call.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
  return call, tree.map_structure(lambda leaf: marks.get(id(leaf), leaf), arguments)


def marked_argument(leaf: Leaf) -> PyTree:
  """Returns the `VariableArgument` or dtype that a leaf of a signature encodes; any other leaf as it is."""
  if isinstance(leaf, str) and leaf.startswith(_VARIABLE):
    return VariableArgument(leaf.removeprefix(_VARIABLE).partition("/")[2])
  if isinstance(leaf, str) and leaf.startswith(_DTYPE):
    return np.dtype(leaf.removeprefix(_DTYPE).partition("/")[2])
  return leaf


def _dtype_argument(leaf: Leaf) -> "np.dtype | None":
  """Returns the dtype that an argument such as `numpy.int32`, `jax.numpy.int32` or `numpy.dtype("int32")` is."""
  if isinstance(leaf, np.dtype):
    return leaf
  if not isinstance(leaf, type):
    return None
  dtype = np.dtype(leaf) if issubclass(leaf, np.generic) else getattr(leaf, "dtype", None)
  return dtype if isinstance(dtype, np.dtype) else None


def keras_arguments(function: TfFunction) -> tuple[PyTree, ...]:
  """Returns specs of the inputs that a Keras model was built for; `()` for any other function."""
  if type(function).__module__.partition(".")[0] not in ("keras", "tf_keras") and not any(
    cls.__module__.partition(".")[0] in ("keras", "tf_keras") for cls in type(function).__mro__
  ):
    return ()
  inputs = getattr(function, "input", None) if getattr(function, "inputs", None) else None
  return () if inputs is None else (inputs,)


def _traceable(tf: TensorFlow, leaf: Leaf) -> PyTree:
  if isinstance(leaf, tf.Variable):
    return leaf
  if isinstance(leaf, tf.TypeSpec):
    return leaf
  if isinstance(leaf, tf.Tensor | tf.__internal__.CompositeTensor):
    return tf.type_spec_from_value(leaf)
  if isinstance(leaf, CompositeTensor):
    return _composite_spec(tf, leaf)
  if isinstance(leaf, TensorSpec):
    return tf.TensorSpec(leaf.shape.dims, leaf.dtype.value, leaf.name)
  if isinstance(leaf, type):
    return leaf  # `shape` and `dtype` of numpy.int32 are those of its instances
  if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
    shape = leaf.shape
    if isinstance(shape, tuple):  # sizes that are symbolic in JAX are open in TensorFlow
      shape = [None if jax.export.is_symbolic_dim(size) else size for size in shape]
    return tf.TensorSpec(shape, _dtype(tf, leaf))
  if isinstance(leaf, float | complex):
    # TensorFlow would make the number a constant, but an example such as 0.0 usually has to become an input.
    return tf.TensorSpec([], tf.float32 if isinstance(leaf, float) else tf.complex64)
  return leaf


def _composite_spec(tf: TensorFlow, value: CompositeTensor) -> Any:
  parts = [_traceable(tf, component) for component in value.components]
  match value:
    case RaggedTensor():
      flat_values, *row_splits = parts
      num_rows = None if row_splits[0].shape[0] is None else row_splits[0].shape[0] - 1
      shape = [num_rows, *[None] * len(row_splits), *flat_values.shape[1:]]
      return tf.RaggedTensorSpec(shape, flat_values.dtype, len(row_splits), row_splits[0].dtype)
    case SparseTensor():
      dims = value.dense_shape
      known = isinstance(dims, np.ndarray | list | tuple)
      shape = [int(dim) for dim in dims] if known else [None] * parts[2].shape[0]
      return tf.SparseTensorSpec(shape, parts[1].dtype)
    case IndexedSlices():
      values, indices, *dense = parts
      shape = [None, *values.shape[1:]]
      return tf.IndexedSlicesSpec(shape, values.dtype, indices.dtype, dense[0].dtype if dense else None, indices.shape)
  raise AssertionError(f"internal: {type(value).__name__} is not a known composite tensor.")


def _dtype(tf: TensorFlow, leaf: Leaf) -> TfDType:
  if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
    raise ConversionError(
      "convert: got a JAX PRNG key as an argument; pass jax.random.key_data(key). If "
      "it is the key for random ops, leave it out and pass rng= in each call."
    )
  try:
    return tf.as_dtype(leaf.dtype)
  except TypeError as e:
    raise ConversionError(f"convert: got an argument of dtype {leaf.dtype}, which TensorFlow does not have.") from e
