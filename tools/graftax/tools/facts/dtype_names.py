"""Short texts for sets of dtypes."""

from collections.abc import Collection, Iterable

from graftax.graphdef_ir import DType, OpSignature

__all__ = ["declared_dtypes", "dtype_text", "fixed_dtypes", "main_type_attr"]

_GROUPS = {
  "floats": ("bfloat16", "float16", "float32", "float64"),
  "ints": ("int8", "int16", "int32", "int64"),
  "uints": ("uint8", "uint16", "uint32", "uint64"),
  "complex": ("complex64", "complex128"),
  "quantized": ("qint8", "quint8", "qint16", "quint16", "qint32"),
  "float8": ("float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"),
}

_NAMES = {"HALF": "float16", "FLOAT": "float32", "DOUBLE": "float64"}


def dtype_text(names: Collection[str]) -> str:
  """Returns dtypes as a text, with a word for a whole group.

  >>> dtype_text(["float32", "bool", "int8", "int16", "int32", "int64"])
  'float32, ints, bool'
  """
  left, words = set(names), list[str]()
  for word, group in _GROUPS.items():
    found = [name for name in group if name in left]
    words += [word] if len(found) == len(group) else found
    left.difference_update(found)
  return ", ".join([*words, *sorted(left)])


def declared_dtypes(signature: OpSignature, attr: str) -> frozenset[str] | None:
  """Returns the dtypes that TensorFlow allows for a type attribute, or None if it allows all."""
  allowed = signature.attrs[attr].allowed
  return None if allowed is None else frozenset(_names(allowed))


def fixed_dtypes(signature: OpSignature, known: Collection[str]) -> frozenset[str]:
  """Returns the dtypes that no attribute chooses, of inputs that may be traced, or else of outputs."""
  inputs = [argument.dtype for argument in signature.inputs if argument.name not in known]
  found = inputs or [argument.dtype for argument in signature.outputs]
  return frozenset(_names(found))


def main_type_attr(signature: OpSignature, known: Collection[str]) -> str | None:
  """Returns the attribute with the dtype of the op's data, or None if it is fixed.

  That is the attribute of its first input that may be traced, or else the first one.

  Args:
    signature: the op.
    known: inputs that must be known while tracing.
  """
  inputs = [argument for argument in signature.inputs if argument.name not in known]
  types = [argument.type_attr for argument in inputs if argument.type_attr]
  if types or inputs:
    return types[0] if types else None
  return next((name for name, attr in signature.attrs.items() if attr.type == "type"), None)


def _names(dtypes: Iterable[object]) -> Iterable[str]:
  for dtype in dtypes:
    if isinstance(dtype, DType):
      yield _NAMES.get(dtype.base.name, dtype.base.name.lower())
