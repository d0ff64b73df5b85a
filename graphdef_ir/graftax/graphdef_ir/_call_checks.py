"""Checks that calls, branches and loops fit the functions that they call."""

from collections.abc import Sequence

from graftax.graphdef_ir.attributes import FunctionRef
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.errors import ArityError, AttributeValueError, TypeMismatchError
from graftax.graphdef_ir.graph import Function, Node
from graftax.graphdef_ir.graph.library import FunctionLibrary

__all__ = ["check_call"]

# Op -> (attributes with functions, type lists of their parameters and of their results). A `For` passes a counter too.
_CALLS: dict[str, tuple[tuple[str, ...], str, str]] = {
  "PartitionedCall": (("f",), "Tin", "Tout"),
  "StatefulPartitionedCall": (("f",), "Tin", "Tout"),
  "If": (("then_branch", "else_branch"), "Tin", "Tout"),
  "StatelessIf": (("then_branch", "else_branch"), "Tin", "Tout"),
  "Case": (("branches",), "Tin", "Tout"),
  "StatelessCase": (("branches",), "Tin", "Tout"),
  "While": (("body",), "T", "T"),
  "StatelessWhile": (("body",), "T", "T"),
  "For": (("body",), "T", "T"),
}
_CONDITIONS = ("While", "StatelessWhile")


def check_call(node: Node, library: FunctionLibrary, where: str) -> None:
  """Raises if a function that the node calls has other parameters or results than the node says.

  Args:
    node: a node, whose attributes have the types that its op declares.
    library: the functions.
    where: the node, for messages.

  Raises:
    ArityError: the number of parameters or results differs.
    TypeMismatchError: a type differs.
  """
  if node.op not in _CALLS:
    return
  attrs, parameters, results = _CALLS[node.op]
  given = _types(node, parameters, where)
  wanted = given if parameters == results else _types(node, results, where)
  counter = (DType.INT32,) if node.op == "For" else ()
  for attr in attrs:
    value = node.attrs.get(attr)
    for reference in value if isinstance(value, tuple) else (value,):
      function = _function(reference, library, attr, where)
      if function is None:
        continue
      _compare(function, [p.dtype for p in function.parameters], [*counter, *given], "parameters", where)
      _compare(function, [r.dtype for r in function.results], wanted, "results", where)
  if node.op in _CONDITIONS:
    function = _function(node.attrs.get("cond"), library, "cond", where)
    if function is None:
      return
    _compare(function, [p.dtype for p in function.parameters], given, "parameters", where)
    if len(function.results) != 1:
      raise ArityError(f"{where}: condition {function.name!r} has {len(function.results)} results; expected 1.")


def _types(node: Node, attr: str, where: str) -> Sequence[DType]:
  types = node.attrs.get(attr)
  if isinstance(types, tuple):
    return [dtype if isinstance(dtype, DType) else DType.INVALID for dtype in types]
  raise AttributeValueError(f"{where}: attribute {attr!r} is {types!r}; expected a list of types.")


def _function(reference: object, library: FunctionLibrary, attr: str, where: str) -> Function | None:
  if isinstance(reference, FunctionRef):
    return library[reference.name] if reference.name else None  # whoever calls a function without a name raises
  raise AttributeValueError(f"{where}: attribute {attr!r} is {reference!r}; expected a function of the library.")


def _compare(function: Function, actual: Sequence[DType], expected: Sequence[DType], what: str, where: str) -> None:
  if len(actual) != len(expected):
    raise ArityError(f"{where}: {function.name!r} has {len(actual)} {what}; the node has {len(expected)} for them.")
  for position, (own, wanted) in enumerate(zip(actual, expected, strict=True)):
    if DType.INVALID not in (own, wanted) and own.base is not wanted.base:
      raise TypeMismatchError(f"{where}: {what}[{position}] of {function.name!r} is {own}; the node has {wanted}.")
