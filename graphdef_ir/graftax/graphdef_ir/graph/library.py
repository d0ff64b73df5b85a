"""The functions of a graph, each parsed on first access."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from graftax.graphdef_ir import schema
from graftax.graphdef_ir.errors import DuplicateNameError, MissingFunctionError
from graftax.graphdef_ir.graph.nodes import Function
from graftax.graphdef_ir.signatures import OpArg, OpSignature, signature_from_op_def

__all__ = ["FunctionLibrary", "LateFunctions"]


class LateFunctions(Protocol):
  """Functions that are made when something needs them. Only what made them tells the name of one."""

  @property
  def functions(self) -> Mapping[str, Function]:
    """Returns the functions that were made so far, by name."""

  def make_all(self) -> None:
    """Makes the others."""


class FunctionLibrary(Mapping[str, Function]):
  """Functions by name. Bodies are parsed on first access, since a model may hold thousands and call few of them.

  `gradient_functions` maps a function's name to that of its custom gradient (TF1's `GradientDef`);
  `registered_gradients` maps a `_gradient_op_type` to the function that computes it (SavedModels with
  `experimental_custom_gradients`).
  """

  __slots__ = ("_functions", "_late", "_parse", "_pending", "_replaced", "gradient_functions", "registered_gradients")

  def __init__(
    self,
    functions: Mapping[str, Function] | None = None,
    gradient_functions: Mapping[str, str] | None = None,
    registered_gradients: Mapping[str, str] | None = None,
  ) -> None:
    self._functions = dict(functions or {})
    self._pending: Mapping[str, schema.FunctionDef] = {}
    self._parse: Callable[[schema.FunctionDef], Function] | None = None
    self._replaced: frozenset[str] = frozenset()
    self._late: LateFunctions | None = None
    self.gradient_functions: Mapping[str, str] = dict(gradient_functions or {})
    self.registered_gradients: Mapping[str, str] = dict(registered_gradients or {})

  @classmethod
  def from_protos(
    cls,
    message: schema.FunctionDefLibrary,
    parse: Callable[[schema.FunctionDef], Function],
  ) -> "FunctionLibrary":
    """Returns the functions of `message`; `parse` parses each on first access.

    Args:
      message: the library of a GraphDef. It must not change afterwards, because its functions are parsed later.
      parse: called once for each function that is used; what it raises is raised at that first access.

    Raises:
      DuplicateNameError: two functions that differ have the same name.
    """
    library = cls(
      gradient_functions={gradient.function_name: gradient.gradient_func for gradient in message.gradient},
      registered_gradients={entry.registered_op_type: entry.gradient_func for entry in message.registered_gradients},
    )
    library._pending = _by_name(message)
    library._parse = parse
    return library

  def __getitem__(self, name: str) -> Function:
    function = self._functions.get(name)
    if function is not None:
      return function
    message = self._pending.get(name)
    if message is None or self._parse is None:
      return self._late_function(name)
    # setdefault, so that threads that race for the same function all get the same object.
    return self._functions.setdefault(name, self._parse(message))

  def _late_function(self, name: str) -> Function:
    function = self._made.get(name)
    if function is None:
      raise MissingFunctionError(f"function {name!r} is not in the library of {len(self.known())} functions.")
    return function

  @property
  def _made(self) -> Mapping[str, Function]:
    return {} if self._late is None else self._late.functions

  def known(self) -> tuple[str, ...]:
    """Returns the names of the functions without those that `with_late` added and that nothing has needed so far."""
    return tuple({**dict.fromkeys(self._pending), **self._functions, **self._made})

  def __contains__(self, name: object) -> bool:
    return name in self._functions or name in self._pending or name in self._made

  def __iter__(self) -> Iterator[str]:
    if self._late is not None:
      self._late.make_all()
    return iter(self.known())

  def __len__(self) -> int:
    if self._late is not None:
      self._late.make_all()
    return len(self.known())

  def signature(self, name: str) -> OpSignature | None:
    """Returns the function's signature without parsing its body, or None if there is no such function.

    A function can be called by using its name as an op. This is then that op's signature.
    """
    function = self._functions.get(name)
    if function is None and name in self._pending:
      return signature_from_op_def(self._pending[name].signature)
    function = self._made.get(name) if function is None else function
    if function is None:
      return None
    return OpSignature(
      name=name,
      inputs=tuple(OpArg(parameter.name, dtype=parameter.dtype) for parameter in function.parameters),
      outputs=tuple(OpArg(result.name, dtype=result.dtype) for result in function.results),
      is_stateful=function.is_stateful,
    )

  def stored_message(self, name: str) -> schema.FunctionDef | None:
    """Returns the message that a function is parsed from (do not change it), or None if there is no such message."""
    message = self._pending.get(name)
    return None if message is None or name in self._replaced else message

  def replace(self, functions: "Mapping[str, Function]") -> "FunctionLibrary":
    """Returns a library with these functions added, replacing those of the same name. The others stay unparsed."""
    library = FunctionLibrary({**self._functions, **functions}, self.gradient_functions, self.registered_gradients)
    library._pending = self._pending
    library._parse = self._parse
    library._replaced = self._replaced | functions.keys()
    library._late = self._late
    return library

  def with_late(self, late: LateFunctions) -> "FunctionLibrary":
    """Returns a library that also has functions that are made later.

    Looking up a name finds those that were made before. Iterating, counting and pickling make all of them.
    """
    library = self.replace({})
    library._late = late
    return library

  def __repr__(self) -> str:
    return f"FunctionLibrary({len(self.known())} functions)"

  def __reduce__(self) -> tuple[Any, ...]:
    return FunctionLibrary, (dict(self.items()), dict(self.gradient_functions), dict(self.registered_gradients))


def _by_name(message: schema.FunctionDefLibrary) -> dict[str, schema.FunctionDef]:
  functions: dict[str, schema.FunctionDef] = {}
  for function in message.function:
    name = function.signature.name
    if functions.setdefault(name, function) is not function and functions[name] != function:
      raise DuplicateNameError(f"function library: two different functions are named {name!r}; expected unique names.")
  return functions
