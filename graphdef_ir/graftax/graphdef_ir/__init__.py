"""TensorFlow GraphDefs and FunctionDefs as a typed, immutable graph, read without TensorFlow.

    >>> graph = parse_graph(schema.GraphDef(node=[schema.NodeDef(name="x", op="NoOp")]).SerializeToString())
    >>> [node.name for node in graph.nodes]
    ['x']

Modules, from the bottom up:

- `errors`: what this package raises on purpose.
- `budget`: limits for what a file asks for.
- `model_folder`: the files that a model may read.
- `schema`: proto messages.
- `dtypes`, `shapes`, `tensors`, `attributes`: what a node can hold.
- `type_runs`: long sequences of dtypes.
- `signatures`: inputs, outputs and attributes of every op.
- `op_traits`: how to treat it.
- `outside_access`: what it reaches outside of its program.
- `graph`: nodes, functions, graphs; ordering, printing and cutting them.
- `parse`, `text_form`, `serialize`: conversion from and to messages.
- `validation`: checking them.
- `passes`: rewrites of functions.
- `optional_library`: imports of libraries that only some functions of this package and those above need.
"""

import warnings

from graftax.graphdef_ir import errors, schema
from graftax.graphdef_ir.attributes import AttrPlaceholder, AttrValue, FunctionRef
from graftax.graphdef_ir.budget import Budget, Limits
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.errors import (
  GraftaxError,
  GraphError,
  LibraryNotFoundError,
  LimitExceededError,
  ParseError,
  UnreadableFileError,
  UnsafeFileError,
  UnsupportedError,
)
from graftax.graphdef_ir.graph import UNRESOLVED_OUTPUT, Function, Graph, Node, NodeOrigin, Parameter, Result, TensorRef
from graftax.graphdef_ir.graph.library import FunctionLibrary
from graftax.graphdef_ir.graph.subgraph import cut_function, extract_subgraph, tensor_spec
from graftax.graphdef_ir.graph.text import format_function, format_graph, format_node
from graftax.graphdef_ir.graph.traverse import (
  ancestors,
  consumers,
  follow_calls,
  function_references,
  reachable_functions,
  referenced_functions,
  topological_order,
)
from graftax.graphdef_ir.model_folder import FolderPaths, ModelFolder, open_regular_file, read_regular_file
from graftax.graphdef_ir.op_traits import OpTraits, traits_of
from graftax.graphdef_ir.optional_library import optional_library
from graftax.graphdef_ir.outside_access import outside_access
from graftax.graphdef_ir.parse import function_from_proto, graph_from_proto, parse_function, parse_graph, parse_message
from graftax.graphdef_ir.passes.attribute_binding import bind_attributes
from graftax.graphdef_ir.passes.call_inlining import inline_calls
from graftax.graphdef_ir.passes.control_flow_raising import raise_control_flow
from graftax.graphdef_ir.passes.device_implementations import implementations_for_cpu
from graftax.graphdef_ir.passes.dilated_convolutions import restore_dilations
from graftax.graphdef_ir.passes.pruning import prune
from graftax.graphdef_ir.serialize import function_to_proto, graph_to_proto, node_to_proto, signature_to_proto
from graftax.graphdef_ir.shapes import PartialShape, TensorSpec, shape_to_proto
from graftax.graphdef_ir.signatures import (
  OpArg,
  OpAttr,
  OpSignature,
  OpSignatures,
  op_signature,
  signature_from_op_def,
)
from graftax.graphdef_ir.tensors import Tensor
from graftax.graphdef_ir.text_form import parse_text_form
from graftax.graphdef_ir.validation import validate, validate_function, validate_nodes, validate_reachable

__version__ = "0.1.0"

__all__ = [
  "UNRESOLVED_OUTPUT",
  "AttrPlaceholder",
  "AttrValue",
  "Budget",
  "DType",
  "FolderPaths",
  "Function",
  "FunctionLibrary",
  "FunctionRef",
  "GraftaxError",
  "Graph",
  "GraphError",
  "LibraryNotFoundError",
  "LimitExceededError",
  "Limits",
  "ModelFolder",
  "Node",
  "NodeOrigin",
  "OpArg",
  "OpAttr",
  "OpSignature",
  "OpSignatures",
  "OpTraits",
  "Parameter",
  "ParseError",
  "PartialShape",
  "Result",
  "Tensor",
  "TensorRef",
  "TensorSpec",
  "UnreadableFileError",
  "UnsafeFileError",
  "UnsupportedError",
  "ancestors",
  "bind_attributes",
  "consumers",
  "cut_function",
  "errors",
  "extract_subgraph",
  "follow_calls",
  "format_function",
  "format_graph",
  "format_node",
  "function_from_proto",
  "function_references",
  "function_to_proto",
  "graph_from_proto",
  "graph_to_proto",
  "implementations_for_cpu",
  "inline_calls",
  "node_to_proto",
  "op_signature",
  "open_regular_file",
  "optional_library",
  "outside_access",
  "parse_function",
  "parse_graph",
  "parse_message",
  "parse_text_form",
  "prune",
  "raise_control_flow",
  "reachable_functions",
  "read_regular_file",
  "referenced_functions",
  "restore_dilations",
  "schema",
  "shape_to_proto",
  "signature_from_op_def",
  "signature_to_proto",
  "tensor_spec",
  "topological_order",
  "traits_of",
  "validate",
  "validate_function",
  "validate_nodes",
  "validate_reachable",
]


def __getattr__(name: str) -> object:
  if name == "Source":
    warnings.warn(
      "graftax.graphdef_ir.Source is NodeOrigin; graftax 0.2 no longer has the old name.",
      DeprecationWarning,
      stacklevel=2,
    )
    return NodeOrigin
  raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
