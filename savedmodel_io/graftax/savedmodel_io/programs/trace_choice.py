"""Chooses the trace of a restored function that a call would take."""

import inspect
import keyword
from collections.abc import Mapping, Sequence

import numpy as np
import tree

from graftax.convert import (
  CompositeTensor,
  ConversionError,
  IndexedSlices,
  InputStructure,
  RaggedTensor,
  SparseTensor,
  bind_names,
  keyword_structure,
)
from graftax.graphdef_ir import PartialShape, TensorSpec
from graftax.savedmodel_io.errors import AmbiguousFunctionError
from graftax.savedmodel_io.objects.functions import ConcreteFunction, RestoredFunction
from graftax.savedmodel_io.objects.type_specs import (
  BoundedTensorSpec,
  CompositeSpec,
  IndexedSlicesSpec,
  RaggedTensorSpec,
  SparseTensorSpec,
  spec_components,
)
from graftax.savedmodel_io.pytrees import Leaf, PyTree

__all__ = ["choose_trace", "narrowed", "plain", "plain_tree", "trace_structure"]


def choose_trace(
  function: RestoredFunction, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]
) -> tuple[ConcreteFunction, InputStructure]:
  """Returns the trace that a call with these arguments would take, and how it is called.

  Arguments are bound as Python binds them: by position or by name, with the function's defaults for those left out.
  Those without a default may be left out too, as long as the rest leaves one trace. Where several traces fit a complete
  call, the first is taken, as TensorFlow does.

  Args:
    function: a restored function.
    args: anything with shape and dtype, or Python values.
    kwargs: the same by name.

  Raises:
    AmbiguousFunctionError: no trace fits, or several do although arguments are left out.
  """
  structures = [trace_structure(function, concrete) for concrete in function.concrete_functions]
  traces = list(zip(function.concrete_functions, structures, strict=True))
  if len(traces) == 1 and not (args or kwargs):
    return traces[0]
  fitting = [trace for trace in traces if _fits(trace[1], args, kwargs)]
  if len(fitting) == 1 or (fitting and _is_complete(fitting[0][1], args, kwargs)):
    return fitting[0]
  listing = "".join(f"\n  {concrete.args} {dict(concrete.kwargs)}" for concrete in function.concrete_functions)
  signature = structures[0].signature if structures else ""
  problem = f"{len(fitting)} traces fit; pass more specs to choose one" if fitting else "no trace fits the given specs"
  raise AmbiguousFunctionError(
    f"function {function.path!r}{signature}: {problem}. Its traces take:{listing or ' nothing'}"
  )


def narrowed(spec: PyTree, given: PyTree, name: str) -> PyTree:
  """Returns `spec` with the shape of `given`, if that is not None. A symbolic size is open.

  Raises:
    AmbiguousFunctionError: they contradict each other.
  """
  if given is None:
    return spec
  if not _leaf_fits(given, spec):
    raise AmbiguousFunctionError(f"input {name!r}: the given spec {given} does not fit {spec}")
  if isinstance(spec, CompositeTensor):
    return spec
  _, shape = _dtype_and_shape(given)
  dims = None if shape.dims is None else tuple(dim if isinstance(dim, int) else None for dim in shape.dims)
  return TensorSpec(PartialShape(dims), spec.dtype, spec.name)


def plain_tree(structure: object) -> PyTree:
  """Returns `structure` with the specs that `graftax.convert` knows.

  Raises:
    ConversionError: it holds a composite tensor that has no JAX counterpart.
  """
  return tree.map_structure(
    lambda leaf: plain(leaf, None) if isinstance(leaf, BoundedTensorSpec | CompositeSpec) else leaf, structure
  )


def plain(spec: object, name: str | None) -> Leaf:
  """Returns one spec as `graftax.convert` knows it: a `TensorSpec`, or a composite tensor of them.

  Raises:
    ConversionError: it has no JAX counterpart.
  """
  components = spec_components(spec) or ()
  match spec:
    case TensorSpec():
      return spec
    case BoundedTensorSpec():
      return TensorSpec(spec.shape, spec.dtype, spec.name)
    case RaggedTensorSpec(flat_values=None):
      return RaggedTensor(components[0], components[1:]) if spec.ragged_rank else components[0]
    case SparseTensorSpec():
      return SparseTensor(*components)
    case IndexedSlicesSpec():
      return IndexedSlices(*components)
  raise ConversionError(
    f"{name or 'argument or result'}: {spec} has no JAX counterpart; expected tensors, ragged or sparse "
    f"tensors or indexed "
    f"slices. Save a function that takes and returns only these."
  )


def trace_structure(function: RestoredFunction, concrete: ConcreteFunction) -> InputStructure:
  """Returns how one trace of a function is called.

  Raises:
    ConversionError: it takes something that has no JAX counterpart.
  """
  args, kwargs = plain_tree(concrete.args), plain_tree(dict(concrete.kwargs))
  if function.spec is not None:
    return InputStructure(args, kwargs, function.spec.signature)
  by_name = keyword_structure(kwargs, {})
  kind = inspect.Parameter
  positional: list[inspect.Parameter] = []
  for i, leaf in enumerate(concrete.args):
    name = getattr(leaf, "name", None) or f"arg{i}"
    can_be_named = name.isidentifier() and not keyword.iskeyword(name) and name not in kwargs
    named = [p.name for p in positional]
    positional.append(kind(name if can_be_named and name not in named else f"arg{i}", kind.POSITIONAL_OR_KEYWORD))
  signature = inspect.Signature([*positional, *by_name.signature.parameters.values()])
  return InputStructure(args, kwargs, signature, by_name.defaults)


def _fits(structure: InputStructure, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> bool:
  expected = structure.arguments
  try:
    given = bind_names(structure.signature, args, kwargs, partial=True)
  except TypeError:
    return False
  # Only whole parameters can be left out, not a part of `*args`.
  left_out = expected.keys() - given.keys()
  return (
    given.keys() <= expected.keys()
    and left_out <= structure.signature.parameters.keys()
    and all(_argument_fits(value, expected[name]) for name, value in given.items())
  )


def _is_complete(structure: InputStructure, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> bool:
  return bind_names(structure.signature, args, kwargs, partial=True).keys() == structure.arguments.keys()


def _argument_fits(given: object, saved: object) -> bool:
  try:
    pairs = zip(tree.flatten(saved), tree.flatten_up_to(saved, given, check_types=False), strict=True)
    tree.assert_same_structure(saved, given, check_types=False)
  except (TypeError, ValueError):
    # A list in place of a tensor is a tensor.
    return isinstance(saved, TensorSpec) and isinstance(given, list | tuple) and _leaf_fits(given, saved)
  return all(_leaf_fits(g, s) for s, g in pairs)


def _leaf_fits(given: object, saved: object) -> bool:
  if isinstance(saved, CompositeTensor):
    if type(given) is not type(saved) or len(given.components) != len(saved.components):
      return False
    return all(map(_leaf_fits, given.components, saved.components))
  if not isinstance(saved, TensorSpec):
    return type(given) is type(saved) and bool(np.all(given == saved))
  if given is None:
    return False
  if isinstance(given, bool | int | float | complex | list | tuple):
    return _python_value_fits(given, saved)
  dtype, shape = _dtype_and_shape(given)
  return dtype == saved.dtype.numpy and saved.shape.is_compatible_with(shape)


def _python_value_fits(given: object, saved: TensorSpec) -> bool:
  """Returns whether a Python value can become the dtype of `saved`, as TensorFlow converts it."""
  array = np.asarray(given)
  ranks = "biufc"
  kind = saved.dtype.numpy.kind
  # ml_dtypes are of kind V.
  kind = "f" if kind == "V" else kind
  fits = array.dtype.kind in ranks and kind in ranks and ranks.index(array.dtype.kind) <= ranks.index(kind)
  is_bool = array.dtype.kind == "b"
  return fits and is_bool == (kind == "b") and saved.shape.is_compatible_with(array.shape)


def _dtype_and_shape(given: object) -> tuple[np.dtype, PartialShape]:
  if isinstance(given, TensorSpec):
    return given.dtype.numpy, given.shape
  if not (hasattr(given, "shape") and hasattr(given, "dtype")):
    given = np.asarray(given)
  dtype = np.dtype(getattr(given.dtype, "as_numpy_dtype", given.dtype))  # NumPy does not accept TensorFlow's own dtypes
  known_rank = getattr(given.shape, "rank", len(given.shape) if not hasattr(given.shape, "rank") else None) is not None
  return dtype, PartialShape(tuple(given.shape) if known_rank else None)
