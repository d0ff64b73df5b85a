"""Errors that this package raises on purpose.

`GraftaxError` is the root of every graftax error. Below it are two families: `GraphError` (the graph or the call is
wrong; also a `ValueError`) and `UnsupportedError` (valid TensorFlow that graftax does not handle; also a
`NotImplementedError`). `LibraryNotFoundError` (a library has to be installed; also an `ImportError`),
`LimitExceededError` (a file asks for too much memory or time; also a `ValueError`), `UnsafeFileError` (a model names a
file that is not its own; also a `ValueError`) and `UnreadableFileError` (also an `OSError`) are in neither.

    >>> issubclass(CycleError, GraphError), issubclass(CycleError, ValueError)
    (True, True)
"""

from graftax.graphdef_ir._error_root import GraftaxError, LimitExceededError

__all__ = [
  "ArityError",
  "AttributeValueError",
  "ControlFlowError",
  "CycleError",
  "DanglingInputError",
  "DeadBranchError",
  "DuplicateNameError",
  "FunctionResultError",
  "GraftaxError",
  "GraphError",
  "IrreducibleControlFlowError",
  "LibraryNotFoundError",
  "LimitExceededError",
  "MissingAttributeError",
  "MissingFunctionError",
  "NoSuchNodeError",
  "OutputIndexError",
  "ParseError",
  "RecursiveFunctionError",
  "TensorError",
  "TypeMismatchError",
  "UnboundAttributeError",
  "UnknownOpError",
  "UnreadableFileError",
  "UnsafeFileError",
  "UnsupportedDTypeError",
  "UnsupportedError",
  "UnsupportedFunctionError",
]


class LibraryNotFoundError(GraftaxError, ImportError):
  """A library that only some functions need is not installed, or cannot be used as it is.

  The message says what needs it and how to install it; `name` is the module that could not be imported.
  """


class UnsafeFileError(GraftaxError, ValueError):
  """A model names a file outside of its folder, or one that is not regular or too large; see `ModelFolder`."""


class UnreadableFileError(GraftaxError, OSError):
  """A file exists, but the system does not open or read it."""

  def __str__(self) -> str:
    return Exception.__str__(self)  # OSError would show the number of the error alone once `errno` is set


class GraphError(GraftaxError, ValueError):
  """A graph, or something asked of it, is wrong."""


class ParseError(GraphError):
  """Bytes are not the message they should be, or the message contradicts itself."""


class TensorError(ParseError):
  """A TensorProto whose shape, element type and values do not fit together."""


class NoSuchNodeError(GraphError, LookupError):
  """The graph or function has no node of that name."""


class DanglingInputError(GraphError):
  """An input names a node that does not exist."""


class OutputIndexError(GraphError):
  """An input names an output that its node does not have."""


class ArityError(GraphError):
  """A node has more or fewer inputs than its op accepts."""


class TypeMismatchError(GraphError):
  """An input has an element type that its op does not accept."""


class CycleError(GraphError):
  """Nodes depend on each other in a cycle that is not a TF1 while loop."""


class ControlFlowError(GraphError):
  """Switch, Merge, Enter, Exit and related nodes do not form conditionals and loops."""


class IrreducibleControlFlowError(ControlFlowError):
  """The conditions or the loop frame under which nodes run cannot be expressed with If and While."""


class DeadBranchError(ControlFlowError):
  """A requested tensor is computed in one branch of a conditional only."""


class DuplicateNameError(GraphError):
  """Two nodes, or a node and a parameter, share a name."""


class MissingFunctionError(GraphError, KeyError):
  """A called function is not in the library."""

  def __str__(self) -> str:
    return Exception.__str__(self)  # KeyError would show the message quoted and escaped


class MissingAttributeError(GraphError):
  """A node lacks an attribute that has no default."""


class AttributeValueError(GraphError):
  """An attribute has a value that its op does not allow."""


class UnboundAttributeError(AttributeValueError):
  """An attribute refers to an attribute of the enclosing function, which has no value yet."""


class FunctionResultError(GraphError):
  """A function's result names a tensor that its body does not compute."""


class RecursiveFunctionError(GraphError):
  """Functions call each other in a cycle, so they cannot be inlined."""


class UnknownOpError(GraphError, LookupError):
  """No signature is known for an op."""


class UnsupportedError(GraftaxError, NotImplementedError):
  """Valid TensorFlow that graftax does not handle."""


class UnsupportedDTypeError(UnsupportedError):
  """An element type without a numpy counterpart, such as RESOURCE and VARIANT."""


class UnsupportedFunctionError(UnsupportedError):
  """A function whose signature cannot be written as a flat list of tensors."""
