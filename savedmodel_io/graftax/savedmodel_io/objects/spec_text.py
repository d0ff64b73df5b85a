"""Specs and nested structures of them in one line, for messages and for people at a prompt."""

import difflib
from collections.abc import Iterable, Mapping

from graftax.graphdef_ir import DType, PartialShape, TensorSpec
from graftax.savedmodel_io.pytrees import PyTree

__all__ = ["listed", "named_specs_text", "spec_text", "structure_text"]

# Names in a message, and names that are looked through for near ones.
_NUM_LISTED = 20
_NUM_COMPARED = 10_000


def spec_text(spec: object) -> str:
  """Returns a spec as a type: `float32[?, 3]`, `SparseTensor<float32>[?, 3]`; the `repr` of anything else.

  Example:
    >>> spec_text(TensorSpec(PartialShape((None, 3)), DType.FLOAT, "x"))
    'float32[?, 3]'
  """
  if isinstance(spec, TensorSpec):
    return str(spec)
  shape, dtype = getattr(spec, "shape", None), getattr(spec, "dtype", None)
  if isinstance(shape, PartialShape) and isinstance(dtype, DType):
    return f"{type(spec).__name__.removesuffix('Spec')}<{dtype}>{shape}"
  return repr(spec)


def listed(name: str, names: Iterable[str]) -> str:
  """Returns the end of a message about an unknown name: the known names, similar ones first, and only some of many.

  Example:
    >>> listed("serv", ["a", "serve"])
    "there are: 'serve', 'a'"
  """
  known = list(names)
  if len(known) > 1:
    near = difflib.get_close_matches(str(name), known[:_NUM_COMPARED], n=5)
    known = [*near, *(other for other in known if other not in near)]
  more = f" and {len(known) - _NUM_LISTED} more" if len(known) > _NUM_LISTED else ""
  return f"there are: {', '.join(map(repr, known[:_NUM_LISTED])) or 'none'}{more}"


def named_specs_text(specs: Mapping[str, PyTree]) -> str:
  """Returns `x: float32[?, 3], y: int32[]`."""
  return ", ".join(f"{name}: {structure_text(spec)}" for name, spec in specs.items())


def structure_text(structure: object) -> str:
  """Returns a nested structure with a type for each spec."""
  if isinstance(structure, Mapping):
    return f"{{{named_specs_text(structure)}}}"
  if isinstance(structure, list):
    return f"[{', '.join(map(structure_text, structure))}]"
  names = getattr(structure, "_fields", None)
  if isinstance(structure, tuple) and names is not None:
    fields = ", ".join(f"{name}={structure_text(value)}" for name, value in zip(names, structure, strict=True))
    return f"{type(structure).__name__}({fields})"
  if isinstance(structure, tuple):
    items = ", ".join(map(structure_text, structure))
    return f"({items},)" if len(structure) == 1 else f"({items})"
  return spec_text(structure)
