"""Flattens nested arguments in the order of `tf.nest`, checks them, and packs flat results into nested ones."""

import dataclasses
import inspect
import keyword
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tree
from jax.typing import DTypeLike

from graftax.convert.errors import InputError, MissingInputError
from graftax.convert.pytrees import Leaf, PyTree
from graftax.convert.structures.composite import CompositeTensor, RaggedTensor
from graftax.convert.structures.named_tuples import attribute_value, portable
from graftax.graphdef_ir import DType, TensorSpec
from graftax.ops_jax import Int64Pair, canonical_dtype, fits_jax_dtype

__all__ = [
  "InputStructure",
  "OutputStructure",
  "VariableArgument",
  "bind_names",
  "flatten_call",
  "is_spec",
  "keyword_structure",
  "leaf_specs",
]

# In messages, values with a longer `repr` are described by their type.
_MAX_SHOWN = 80
# Of an eager tensor t of TensorFlow, the arguments of our class of the same name.
_FIELDS_IN_TENSORFLOW = {
  "RaggedTensor": "t.flat_values.numpy(), tuple(s.numpy() for s in t.nested_row_splits)",
  "SparseTensor": "t.indices.numpy(), t.values.numpy(), t.dense_shape.numpy()",
}

# NumPy and Python integers are known while tracing, as in TF2JAX, in arrays of up to this many elements.
_MAX_KNOWN_SIZE = 32


@dataclasses.dataclass(frozen=True, slots=True)
class VariableArgument:
  """Marks an argument that was a `tf.Variable` at the conversion; its value is one of the parameters.

  Attributes:
    name: TensorFlow's name of the variable, with its ":0".
  """

  name: str


@dataclasses.dataclass(frozen=True, slots=True)
class InputStructure:
  """The arguments of a function, and the order of its flat tensors.

  Attributes:
    args: nested positional arguments with a `TensorSpec`, or a composite tensor of them, for each tensor; any other
      leaf is a fixed Python value.
    kwargs: the same for keyword-only arguments, and for the arguments collected by `**`.
    signature: the Python signature, with defaults.
    defaults: default values of arguments collected by `**`.
  """

  args: tuple[PyTree, ...]
  kwargs: Mapping[str, PyTree]
  signature: inspect.Signature
  defaults: Mapping[str, PyTree] = dataclasses.field(default_factory=dict)

  @property
  def specs(self) -> tuple[TensorSpec, ...]:
    """Returns the tensor specs in flat order."""
    return tuple(spec for leaf in tree.flatten((self.args, dict(self.kwargs))) for spec in leaf_specs(leaf))

  @property
  def arguments(self) -> dict[str, PyTree]:
    """Returns argument name -> nested specs, in TensorFlow's flat order; `*rest` is named rest_0, rest_1, ..."""
    names: list[str] = []
    for parameter in self.signature.parameters.values():
      if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
        names.append(parameter.name)
      elif parameter.kind is parameter.VAR_POSITIONAL:
        names.extend(f"{parameter.name}_{i}" for i in range(len(self.args) - len(names)))
    arguments = dict(zip(names, self.args, strict=False))
    arguments.update((name, self.kwargs[name]) for name in sorted(self.kwargs))
    return arguments

  @property
  def ragged_splits(self) -> list[tuple[int, int, int]]:
    """Returns `(splits, divided, extra)` for the row splits of each ragged argument.

    The first two are flat positions: of the row splits, and of the values or inner row splits that they divide. `extra`
    is 1 for inner row splits, which have one element more than rows, and 0 for values.
    """
    found = []
    start = 0
    for leaf in tree.flatten((self.args, dict(self.kwargs))):
      count = len(leaf_specs(leaf))
      if isinstance(leaf, RaggedTensor):
        # Splits follow the values, outermost first.
        found += [(start + i, start + i + 1, 1) for i in range(1, count - 1)] + [(start + count - 1, start, 0)]
      start += count
    return found

  def free_name(self, name: str) -> str:
    """Returns `name`, followed by underscores if an argument has that name."""
    while name in self.arguments:
      name += "_"
    return name

  def __reduce__(self) -> tuple[Any, ...]:
    fields = (portable(self.args), portable(dict(self.kwargs)), self.signature, dict(self.defaults))
    return InputStructure, fields


@dataclasses.dataclass(frozen=True, slots=True)
class OutputStructure:
  """The nested results of a function.

  Attributes:
    nested: a structure whose leaves describe the flat outputs, in order: a `TensorSpec` for one output, a composite
      tensor of specs for several. Any other leaf (None, a Python value) is part of the result.
  """

  nested: PyTree

  def pack(self, outputs: Sequence[Leaf]) -> PyTree:
    """Returns the nested result made of flat outputs."""
    flat = iter(outputs)
    return tree.unflatten_as(self.nested, [_pack_leaf(leaf, flat) for leaf in tree.flatten(self.nested)])

  def __reduce__(self) -> tuple[Any, ...]:
    return OutputStructure, (portable(self.nested),)


def keyword_structure(inputs: Mapping[str, PyTree], defaults: Mapping[str, PyTree]) -> InputStructure:
  """Returns the structure of a function whose inputs are all passed by name.

  If a name is not a valid name of a Python parameter (`"input:0"`, `"class"`), its input is collected by `**inputs`.

  Args:
    inputs: nested `TensorSpec`s by name, in the order of the function's flat tensors.
    defaults: default values of some of them. Inputs without one are required.
  """
  usable = [key for key in inputs if key.isidentifier() and not keyword.iskeyword(key)]
  kind = inspect.Parameter
  parameters = [kind(key, kind.KEYWORD_ONLY, default=defaults.get(key, kind.empty)) for key in usable]
  if len(usable) < len(inputs):
    rest = "inputs"
    while rest in usable:
      rest += "_"
    parameters.append(kind(rest, kind.VAR_KEYWORD))
  others = {key: value for key, value in defaults.items() if key not in usable}
  return InputStructure((), dict(inputs), inspect.Signature(parameters), others)


def is_spec(leaf: object) -> bool:
  """Returns whether a leaf of a structure describes a tensor or a composite tensor."""
  return isinstance(leaf, TensorSpec | CompositeTensor)


def leaf_specs(leaf: object) -> tuple[TensorSpec, ...]:
  """Returns the specs of the tensors that a leaf describes; `()` for a Python value."""
  if isinstance(leaf, CompositeTensor):
    return leaf.components
  return (leaf,) if isinstance(leaf, TensorSpec) else ()


def _pack_leaf(leaf: object, flat: Iterator[Leaf]) -> Leaf:
  if isinstance(leaf, CompositeTensor):
    return leaf.with_components([next(flat) for _ in leaf.components])
  return next(flat) if isinstance(leaf, TensorSpec) else leaf


def flatten_call(
  structure: InputStructure,
  args: Sequence[PyTree],
  kwargs: Mapping[str, PyTree],
  *,
  function: str,
  strict_shape_check: bool,
  strict_dtype_check: bool,
) -> list[Leaf]:
  """Returns the flat tensors of a call, checked against the structure of the converted function.

  Args:
    structure: the arguments of the function.
    args: the call's positional arguments.
    kwargs: the call's keyword arguments.
    function: the function's name, for messages.
    strict_shape_check: raise if the spec does not allow the shape.
    strict_dtype_check: raise if the dtype is not that of the spec.

  Raises:
    MissingInputError: an argument is missing.
    InputError: an argument is unknown, nested differently, or of a wrong shape or dtype.
  """
  bound = _bind(structure, args, kwargs, function)
  left_out = structure.signature.parameters.keys() - structure.signature.bind_partial(*args, **kwargs).arguments.keys()
  flat: list[Leaf] = []
  for name, spec in structure.arguments.items():
    if name in left_out and not _has_specs(spec):
      continue  # as of a ConcreteFunction, it has the value that the function was converted with
    for path, leaf, value in _paired_leaves(name, spec, bound[name], function):
      where = f"{function}: argument {'.'.join(map(str, (name, *path)))!r}"
      if isinstance(leaf, CompositeTensor):
        parts = _composite_parts(value, leaf, where)
        flat += (
          _check_tensor(part, spec, f"{where}, {name}", strict_shape_check, strict_dtype_check)
          for part, spec, name in parts
        )
      elif isinstance(leaf, TensorSpec):
        flat.append(_check_tensor(value, leaf, where, strict_shape_check, strict_dtype_check))
      else:
        _check_fixed(value, leaf, where)
  return flat


def _has_specs(argument: object) -> bool:
  return any(is_spec(leaf) for leaf in tree.flatten(argument))


def _composite_parts(value: object, spec: CompositeTensor, where: str) -> list[tuple[Leaf, TensorSpec, str]]:
  if type(value) is not type(spec) or len(value.components) != len(spec.components):
    kind = type(spec).__name__
    raise InputError(
      f"{where}: got {_short(value)}; expected a graftax.convert.{kind} of {', '.join(map(str, spec.components))}."
      f"{_how_to_build(kind, value)}"
    )
  return list(zip(value.components, spec.components, spec.component_names, strict=True))


def _how_to_build(kind: str, value: object) -> str:
  if (
    kind not in _FIELDS_IN_TENSORFLOW
    or type(value).__name__ != kind
    or not type(value).__module__.startswith("tensorflow.")
  ):
    return ""
  return f" From a tf.{kind} t, build it as graftax.convert.{kind}({_FIELDS_IN_TENSORFLOW[kind]})."


def _short(value: object) -> str:
  text = repr(value)
  return text if len(text) <= _MAX_SHOWN else f"a {type(value).__name__}"


def _bind(
  structure: InputStructure, args: Sequence[PyTree], kwargs: Mapping[str, PyTree], function: str
) -> dict[str, PyTree]:
  signature, expected = structure.signature, structure.arguments
  try:
    named = {**structure.defaults, **bind_names(signature, args, kwargs)}
  except TypeError as e:
    error = MissingInputError if _binds_partially(signature, args, kwargs) else InputError
    unknown = [name for name in kwargs if name not in expected]
    hint = f", of which {unknown!r} are unknown" if unknown else ""
    named_too = f" and {list(kwargs)!r}{hint}" if kwargs else ""
    positional = f"{len(args)} positional argument{'' if len(args) == 1 else 's'}"
    raise error(
      f"{function}{signature}: {e}; it was called with {positional}{named_too}, and takes "
      f"{list(expected)!r}{_by_name(signature)}."
    ) from None
  # Arguments within *args and **kwargs have no default; what was fixed by the conversion, as `training=True`, has one.
  for name in expected.keys() - named.keys():
    if not _has_specs(expected[name]):
      named[name] = expected[name]
  missing, unknown = [n for n in expected if n not in named], [n for n in named if n not in expected]
  if missing or unknown:
    raise (MissingInputError if missing else InputError)(
      f"{function}{signature}: missing arguments {missing!r}, unknown arguments {unknown!r}; it was converted with "
      f"{list(expected)!r}."
    )
  return named


def _by_name(signature: inspect.Signature) -> str:
  kinds = {parameter.kind for parameter in signature.parameters.values()}
  return ", by name only" if kinds and kinds <= {inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD} else ""


def _binds_partially(signature: inspect.Signature, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> bool:
  try:
    signature.bind_partial(*args, **kwargs)
  except TypeError:
    return False
  return True


def bind_names(
  signature: inspect.Signature, args: Sequence[PyTree], kwargs: Mapping[str, PyTree], *, partial: bool = False
) -> dict[str, PyTree]:
  """Returns argument name -> value of a call, with defaults; names are those of `InputStructure.arguments`.

  Args:
    signature: the signature of the function.
    args: the positional arguments of the call.
    kwargs: the keyword arguments of the call.
    partial: whether arguments without a default may be left out; these are not in the result.

  Raises:
    TypeError: the arguments do not fit the signature.

  Example:
    >>> bind_names(inspect.signature(lambda x, *rest, y=0: None), (1, 2, 3), {})
    {'x': 1, 'rest_0': 2, 'rest_1': 3, 'y': 0}
  """
  bound = (signature.bind_partial if partial else signature.bind)(*args, **kwargs)
  bound.apply_defaults()
  named: dict[str, PyTree] = {}
  for name, value in bound.arguments.items():
    kind = signature.parameters[name].kind
    if kind is inspect.Parameter.VAR_POSITIONAL:
      named.update({f"{name}_{i}": v for i, v in enumerate(value)})
    elif kind is inspect.Parameter.VAR_KEYWORD:
      named.update(value)
    else:
      named[name] = value
  return named


def _paired_leaves(name: str, spec: object, value: object, function: str) -> list[tuple[tuple[Any, ...], Leaf, Leaf]]:
  spec_leaves = tree.flatten_with_path(spec)
  if len(spec_leaves) == 1 and not spec_leaves[0][0]:
    return [((), spec_leaves[0][1], value)]
  value = _as_tuples(spec, value)
  try:
    values = tree.flatten_up_to(spec, value, check_types=False)
  except (TypeError, ValueError, KeyError) as e:
    missing, different = _differences(spec, value, (name,))
    what = [f"missing {missing!r}"] if missing else []
    what += [f"{path!r} {problem}" for path, problem in different]
    raise (MissingInputError if missing else InputError)(
      f"{function}: argument {name!r} is nested differently than when it was converted: {'; '.join(what) or e}."
    ) from e
  return [(path, leaf, v) for (path, leaf), v in zip(spec_leaves, values, strict=True)]


def _as_tuples(spec: object, value: Any) -> PyTree:
  """Returns a value with tuples in place of objects with attributes where `spec` has named tuples.

  A named tuple describes an extension type, or a class that TensorFlow flattens; its instances may be passed too.
  """
  if isinstance(spec, tuple) and hasattr(spec, "_fields") and not isinstance(value, list | tuple):
    found = [attribute_value(value, name, value) for name in spec._fields]
    value = value if any(item is value for item in found) else found
  if isinstance(spec, Mapping) and isinstance(value, Mapping) and spec.keys() == value.keys():
    return {key: _as_tuples(spec[key], value[key]) for key in spec}
  if isinstance(spec, list | tuple) and isinstance(value, list | tuple) and len(spec) == len(value):
    items = [_as_tuples(*pair) for pair in zip(spec, value, strict=True)]
    # The fields of a named tuple are paired by name.
    is_named = hasattr(spec, "_fields") and not hasattr(value, "_fields")
    kind = type(spec) if is_named else type(value) if hasattr(value, "_fields") else list
    return kind(items) if kind is list else kind(*items)
  return value


def _differences(spec: object, value: object, path: tuple[Any, ...]) -> tuple[list[str], list[tuple[str, str]]]:
  """Returns the paths that `value` lacks, and `(path, problem)` for other differences between the two structures."""
  where = ".".join(map(str, path))
  if isinstance(spec, Mapping) and isinstance(value, Mapping):
    missing = [f"{where}.{key}" for key in spec if key not in value]
    unknown = [key for key in value if key not in spec]
    different = [(where, f"has the unknown keys {unknown!r}; expected {list(spec)!r}")] if unknown else []
    pairs = [(key, spec[key], value[key]) for key in spec if key in value]
  elif isinstance(spec, list | tuple) and isinstance(value, list | tuple):
    missing, different = [], []
    if len(spec) != len(value):
      different = [(where, f"has {len(value)} elements; expected {len(spec)}")]
    pairs = [(i, s, v) for i, (s, v) in enumerate(zip(spec, value, strict=False))]
  elif isinstance(spec, Mapping | list | tuple):
    return [], [(where, f"is {_short(value)}; expected a {type(spec).__name__}")]
  else:
    return [], []
  for key, inner_spec, inner_value in pairs:
    inner_missing, inner_different = _differences(inner_spec, inner_value, (*path, key))
    missing, different = missing + inner_missing, different + inner_different
  return missing, different


def _check_tensor(
  value: object, spec: TensorSpec, where: str, strict_shape_check: bool, strict_dtype_check: bool
) -> Leaf:
  is_text = spec.dtype.base is DType.STRING
  if value is None or isinstance(value, CompositeTensor) or (isinstance(value, str | bytes) and not is_text):
    raise InputError(f"{where}: got {_short(value)}; expected an array like {spec}.")
  try:
    # NumPy's own string types do not hold all bytes.
    shape = np.shape(np.array(value, object) if is_text else value)
  except (TypeError, ValueError) as e:
    raise InputError(f"{where}: got a {type(value).__name__}; expected an array like {spec}.") from e
  if strict_shape_check and not spec.shape.is_compatible_with(shape):
    raise InputError(
      f"{where}: incompatible input shape: got shape {list(shape)}; expected {spec.shape}. Pass an array of that "
      f"shape, convert again with a spec that allows this one, or switch the check off with "
      f"override_config('strict_shape_check', False)."
    )
  if is_text:
    return _as_text(value, spec, where)
  dtype = value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype
  # With 64-bit types off, JAX has no arrays of some dtypes.
  if strict_dtype_check and dtype not in (spec.dtype.numpy, canonical_dtype(spec.dtype.numpy)):
    raise InputError(
      f"{where}: incompatible input dtype: got dtype {dtype}; expected {spec.dtype.tf_name}. Cast it, or switch the "
      f"check off with override_config('strict_dtype_check', False)."
    )
  array = value if isinstance(value, jax.Array | Int64Pair) else _as_array(value, spec, where)
  return _of_kind(array, spec.dtype.base.numpy, where)


def _as_text(value: object, spec: TensorSpec, where: str) -> np.ndarray:
  """Returns strings as an object array of bytes, as TensorFlow stores them."""
  array = np.array(value, object)
  for index, item in np.ndenumerate(array):
    if not isinstance(item, str | bytes):
      raise InputError(f"{where}: got {_short(value)}; expected text, as str or bytes, like {spec}.")
    try:
      array[index] = item.encode() if isinstance(item, str) else item
    except UnicodeEncodeError as e:
      raise InputError(f"{where}: {_short(item)} is not text that UTF-8 can encode: {e.reason}.") from e
  return array


def _as_array(value: object, spec: TensorSpec, where: str) -> Leaf:
  """Returns a value as a JAX array of its dtype; short integer arrays stay in NumPy, so that they are known."""
  array = np.asarray(value)
  if array.dtype.kind in "OSU":
    raise InputError(f"{where}: got {_short(value)} of dtype {array.dtype}; expected an array like {spec}.")
  wanted = spec.dtype.base.numpy
  is_integral = array.dtype.kind in "iub" and wanted.kind in "iub"
  if is_integral:
    _check_range(array, wanted, where)
  stays_known = is_integral and array.ndim <= 2 and array.size <= _MAX_KNOWN_SIZE
  if is_integral or (not hasattr(value, "dtype") and np.can_cast(array.dtype, wanted, "same_kind")):
    array = array.astype(wanted)  # Python numbers have no dtype of their own.
  _check_fits(array, where)
  return array if stays_known else jnp.asarray(array)


def _of_kind(array: Leaf, wanted: np.dtype, where: str) -> Leaf:
  """Converts booleans to integers, integers to floats, and real to complex numbers, as the function expects.

  Ops compute in the dtype of their inputs. Another precision is kept, and the function then runs in that precision.

  Raises:
    InputError: the conversion would lose a part of the values, such as the fraction of floats.
  """
  if isinstance(array, Int64Pair) or jnp.issubdtype(array.dtype, jax.dtypes.extended):
    return array
  have, want = _kind(array.dtype), _kind(wanted)
  if have > want:
    raise InputError(
      f"{where}: got {array.dtype}{list(array.shape)}; expected {wanted.name}, and TensorFlow does not convert it "
      f"either. Cast it, as in x.astype({wanted.name!r})."
    )
  return array.astype(canonical_dtype(wanted)) if have < want and isinstance(array, jax.Array) else array


def _kind(dtype: DTypeLike) -> int:
  """Returns 0 for booleans, 1 for integers, 2 for floats and 3 for complex numbers, each of which hold those before."""
  return sum(jnp.issubdtype(dtype, kind) for kind in (np.number, np.inexact, np.complexfloating))


def _check_range(value: np.ndarray, wanted: np.dtype, where: str) -> None:
  """Raises if integers are beyond the integers of the dtype that they will get, where NumPy wraps them."""
  if value.size == 0 or value.dtype.kind not in "iu" or wanted.kind not in "iub":
    return
  limits = (0, 1) if wanted.kind == "b" else (np.iinfo(wanted).min, np.iinfo(wanted).max)
  if value.min() < limits[0] or value.max() > limits[1]:
    raise InputError(
      f"{where}: got {value.dtype} values from {value.min()} to {value.max()}; expected {wanted}, which holds "
      f"{limits[0]} to {limits[1]}."
    )


def _check_fits(value: np.ndarray, where: str) -> None:
  """Raises if JAX would truncate integers to 32 bits. Floats are rounded to float32, as always in JAX."""
  if not fits_jax_dtype(value):
    held = canonical_dtype(value.dtype)
    raise InputError(
      f"{where}: got {value.dtype} values from {value.min()} to {value.max()}, which {held} does not hold. JAX's "
      f"64-bit types are off; switch them on with jax.config.update('jax_enable_x64', True), or, for random seeds and "
      f"integer arithmetic, pass graftax.ops_jax.as_int64_pair(value)."
    )


def _check_fixed(value: object, traced_with: object, where: str) -> None:
  if isinstance(traced_with, VariableArgument):
    if value is None:
      return
    raise InputError(
      f"{where}: got {_short(value)}, but the function was converted with the variable {traced_with.name!r}, whose "
      f"value is one of the parameters. Pass None, and the value among the parameters."
    )
  # Objects that compare by identity, such as modules, cannot be compared by value, so any object is accepted.
  if value is traced_with or not (traced_with is None or _compares_by_value(traced_with)):
    return
  if isinstance(value, jax.core.Tracer):
    raise InputError(
      f"{where}: got a traced value, but the function was converted with the fixed value {_short(traced_with)}. Under "
      f"jax.jit, name the argument in static_argnames, or bind it with functools.partial."
    )
  # Classes of NumPy such as numpy.int32 equal dtypes; their `ndim` is that of their instances.
  is_class = isinstance(value, type)
  comparable = value is not None and (is_class or _compares_by_value(value))
  if (not is_class and np.ndim(value)) or not (comparable and value == traced_with):
    raise InputError(
      f"{where}: got {_short(value)}, but the function was converted with the fixed value {_short(traced_with)}. "
      f"Convert it again with the new value, or with an array to make it an input."
    )


def _compares_by_value(value: object) -> bool:
  kind: Any = type(value)
  return kind.__hash__ is not None and kind.__eq__ is not object.__eq__
