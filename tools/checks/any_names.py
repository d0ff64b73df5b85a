"""A plugin of mypy: its report counts the expressions of an alias of Any, such as `PyTree`, as it counts those of Any.

Without it the report leaves them out, so that a package would seem typed because its Anys got names.
"""

from collections.abc import Callable

from mypy.nodes import TypeAlias
from mypy.plugin import AnalyzeTypeContext, Plugin
from mypy.types import AnyType, Type, TypeOfAny, get_proper_type


class AnyNames(Plugin):
  """Reads an alias of Any as an Any that is written out."""

  def get_type_analyze_hook(self, fullname: str) -> Callable[[AnalyzeTypeContext], Type] | None:
    found = self.lookup_fully_qualified(fullname)
    if found is None or not isinstance(found.node, TypeAlias):
      return None
    return _explicit if isinstance(get_proper_type(found.node.target), AnyType) else None


def _explicit(context: AnalyzeTypeContext) -> Type:
  return AnyType(TypeOfAny.explicit)


def plugin(version: str) -> type[Plugin]:
  """Returns the class that mypy makes an object of."""
  return AnyNames
