"""Input signatures: nested shapes and dtypes, with names and defaults."""

import dataclasses
import inspect
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from graftax.convert import variable_names
from graftax.savedmodel_io.errors import SaveInputError
from graftax.savedmodel_io.export._tensorflow import imported_tensorflow
from graftax.savedmodel_io.pytrees import Leaf, PyTree

__all__ = [
  "InputSpec",
  "TensorSpecWithDefault",
  "checked_signature",
  "default_values",
  "named_specs",
  "remove_signature_defaults",
]

# JAX has no public name for it.
_SymbolicSize = type(jax.export.symbolic_shape("n")[0])


@dataclasses.dataclass
class TensorSpecWithDefault:
  """The shape and dtype of an input that a caller may leave out.

  If one array of a nested argument has a default, all have. Arguments with defaults come after those without.

  Attributes:
    tensor_spec: a `tf.TensorSpec`, or anything with `shape` and `dtype`. Dimensions that are None or symbolic
      (`jax.export.symbolic_shape`) are open.
    default_val: its value if the caller leaves it out. It becomes a tensor if `tensor_spec` is one of TensorFlow, and
      else an array.
    is_primary: whether `make_auto_batching_function` takes the batch size from this input.

  Raises:
    SaveInputError: the default is None, or does not fit the shape and dtype. Floats may be rounded.

  Example:
    >>> TensorSpecWithDefault(jax.ShapeDtypeStruct(jax.export.symbolic_shape("batch"), np.float32), [1, 2]).default_val
    array([1., 2.], dtype=float32)
  """

  tensor_spec: Leaf
  default_val: Leaf
  is_primary: bool = False

  def __post_init__(self) -> None:
    if self.default_val is None:
      raise SaveInputError(
        f"the default of {self.tensor_spec} is None; use the spec itself for an input without default"
      )
    spec = _input_spec(self.tensor_spec, None, "tensor_spec")
    tf = imported_tensorflow()
    try:
      if tf is not None and isinstance(self.tensor_spec, tf.TensorSpec):
        self.default_val = tf.convert_to_tensor(self.default_val, self.tensor_spec.dtype)
      else:
        self.default_val = _cast(self.default_val, spec.dtype)
    except (TypeError, ValueError, OverflowError) as e:
      raise SaveInputError(f"the default of {self.tensor_spec} cannot become {spec.dtype}: {e}") from e
    shape = tuple(self.default_val.shape)
    if not spec.has_shape(shape):
      raise SaveInputError(
        f"the default of {self.tensor_spec} is not compatible with it: it has the shape {list(shape)}"
      )


@dataclasses.dataclass(frozen=True)
class InputSpec:
  """One input of a signature.

  Attributes:
    shape: a dimension of None is open; None if the rank is not known.
    dtype: the dtype of NumPy; object for text.
    name: its name in the signature.
  """

  shape: tuple[int | None, ...] | None
  dtype: np.dtype
  name: str

  def has_shape(self, shape: tuple[int, ...]) -> bool:
    """Returns whether an array of this shape fits."""
    if self.shape is None:
      return True
    return len(self.shape) == len(shape) and all(a in (None, b) for a, b in zip(self.shape, shape, strict=True))


def checked_signature(input_signature: PyTree, where: str) -> tuple[PyTree, ...]:
  """Returns an input signature as a tuple of nested specs.

  Raises:
    SaveInputError: it is not a sequence, or a leaf has no shape or no dtype.
  """
  if isinstance(input_signature, str) or not isinstance(input_signature, Sequence):
    raise SaveInputError(
      f"{where}: input_signature is {input_signature!r:.80}; expected a list of specs, one per input"
    )
  for path, leaf in jax.tree_util.tree_leaves_with_path(tuple(input_signature)):
    _input_spec(_without_default(leaf), None, f"{where}: input_signature{jax.tree_util.keystr(path)}")
  return tuple(input_signature)


def remove_signature_defaults(input_signature: PyTree) -> PyTree:
  """Returns an input signature with the plain spec in place of each `TensorSpecWithDefault`.

  Example:
    >>> spec = jax.ShapeDtypeStruct((), np.float32)
    >>> remove_signature_defaults([spec, {"a": TensorSpecWithDefault(spec, 1)}]) == [spec, {"a": spec}]
    True
  """
  return jax.tree.map(_without_default, input_signature)


def default_values(input_signature: Sequence[PyTree], where: str) -> list[PyTree]:
  """Returns the nested default of each argument, or `inspect.Parameter.empty`.

  Raises:
    SaveInputError: only a part of an argument has defaults, or an argument without default follows one with.
  """
  values: list[PyTree] = []
  for i, argument in enumerate(input_signature):
    has_default = [isinstance(leaf, TensorSpecWithDefault) for leaf in jax.tree.leaves(argument)]
    if any(has_default) and not all(has_default):
      raise SaveInputError(
        f"{where}: input {i} has defaults for {sum(has_default)} of {len(has_default)} arrays; use "
        "TensorSpecWithDefault for each array of a nested input, or for none"
      )
    if any(has_default):
      values.append(jax.tree.map(lambda spec: spec.default_val, argument))
    elif values and values[-1] is not inspect.Parameter.empty:
      raise SaveInputError(
        f"{where}: input {i} has no default, but input {i - 1} has one; put those with defaults last"
      )
    else:
      values.append(inspect.Parameter.empty)
  return values


def named_specs(input_signature: Sequence[PyTree], where: str, *, number_repeated: bool = False) -> tuple[PyTree, ...]:
  """Returns an input signature with an `InputSpec` for each leaf.

  A leaf without a name has the name that TensorFlow gives it: "inputs_0" for the first input, and "inputs_0_a" for its
  element "a".

  Args:
    input_signature: a spec for each input, nested as the input.
    where: what the signature is for, for messages.
    number_repeated: if several leaves have one name, add numbers to it, as TensorFlow does.

  Raises:
    SaveInputError: several leaves have one name, and they are not numbered.
  """
  leaves, structure = jax.tree.flatten(tuple(input_signature))
  paths = variable_names({"inputs": tuple(input_signature)}, "_")
  specs = [_input_spec(_without_default(leaf), path, where) for leaf, path in zip(leaves, paths, strict=True)]
  if number_repeated:
    specs = _numbered(specs)
  names = [spec.name for spec in specs]
  repeated = sorted({name for name in names if names.count(name) > 1})
  if repeated:
    raise SaveInputError(f"{where}: several inputs are named {repeated}; rename all but one")
  return jax.tree.unflatten(structure, specs)


def _numbered(specs: Sequence[InputSpec]) -> list[InputSpec]:
  found: dict[str, InputSpec] = {}
  for spec in specs:
    name, number = spec.name, 0
    while name in found or (number and any(name == other.name for other in specs)):
      number += 1
      name = f"{spec.name}_{number}"
    found[name] = dataclasses.replace(spec, name=name)
  return list(found.values())


def _cast(value: object, dtype: np.dtype) -> np.ndarray:
  """Returns a value as an array of a dtype; raises if the dtype cannot hold it."""
  given = np.asarray(value)
  if given.dtype.kind == "c" and dtype.kind != "c":
    raise ValueError(f"{dtype} does not hold {given.dtype}")
  with np.errstate(over="ignore"):
    cast = np.asarray(value, dtype)
  if dtype.kind in "biu" and not np.array_equal(cast, given):
    raise ValueError(f"{dtype} does not hold {given.dtype} {given.tolist()!r:.80}")
  if given.dtype.kind in "iufc" and (np.isfinite(given) & ~np.isfinite(cast)).any():
    raise OverflowError(f"{given.dtype} {given.tolist()!r:.80} is beyond the range of {dtype}")
  return cast


def _without_default(leaf: object) -> Leaf:
  return leaf.tensor_spec if isinstance(leaf, TensorSpecWithDefault) else leaf


def _input_spec(spec: object, name: str | None, where: str) -> InputSpec:
  shape: Any = getattr(spec, "shape", None)
  dtype = getattr(spec, "dtype", None)
  if dtype is None or not hasattr(spec, "shape"):
    raise SaveInputError(f"{where} is {spec!r:.80}; expected a spec with a shape and a dtype, such as tf.TensorSpec")
  is_unknown = shape is None or getattr(shape, "rank", 0) is None
  try:
    # NumPy does not accept TensorFlow's own dtypes.
    np_dtype = np.dtype(getattr(dtype, "as_numpy_dtype", dtype))
  except TypeError as e:
    raise SaveInputError(f"{where} has the dtype {dtype!r:.80}, which is not one of NumPy") from e
  sizes = None if is_unknown else tuple(_size(size) for size in shape)
  return InputSpec(sizes, np_dtype, getattr(spec, "name", None) or name or "")


def _size(size: Any) -> Any:
  """Returns a dimension, or None if it is symbolic."""
  return None if isinstance(size, _SymbolicSize) else size
