"""Converts TensorFlow programs to JAX functions: plans each program once, then runs the plan under any JAX transform.

All names of TF2JAX's API are here, so its users can write `import graftax.convert as tf2jax`.

Rooms, in the order of a conversion:

- `sources`: makes a `Program` of anything that can be converted.
- `live`: reads live TensorFlow functions as a `Program`.
- `tables`: lookup tables as constants.
- `planning`: a program as a plan, and what it needs.
- `evaluation`: walks a plan.
- `structures`: nested inputs and outputs.
- `host_parts`, `host_split`, `host_ops`: the parts of a model for the host, and what runs in them.
- `inference`: programs with fixed parameters, for inference.
- `modules`: converted functions as modules of other libraries.
- `jax2tf`: from JAX to TensorFlow.
- `source_code`: JAX functions as Python that imports only jax and numpy.
- `rewriting`: StableHLO in graphs, written for the program that will run it.

A program comes in:

- `api`: The functions that convert TensorFlow functions to JAX functions; names and results are those of TF2JAX.
- `program`: `Program`, the input of a conversion: a TensorFlow function with its library, captures and variables.
- `variable`: `Variable`, a parameter value with the name and trainability of the TensorFlow variable.

It is converted:

- `conversion`: Converts a `Program` to a JAX function and its parameters.
- `support_check`: The error that lists everything in a program that JAX does not have, before anything runs.
- `subgraph`: Cuts a program down to the part between some of its tensors.
- `generator_variables`: Finds the variables that hold states of random generators; no bit of their 64-bit integers may
  be lost.

What a conversion returns, takes and raises:

- `annotated`: What a conversion returns: a function that knows its signature and its nested inputs and outputs.
- `options`: Options of a conversion, and the three functions of TF2JAX that read and change their defaults.
- `errors`: Errors raised by conversions and by calls of converted functions.

It is compiled:

- `bound_threads`: Binds the threads in which XLA computes to cores.
- `compiled`: Compiles a converted function as `jax.jit` does, without copying the parameters that it does not assign.
- `freed_memory`: Lets the C library keep the memory that compiled programs free after each call.
- `xla_options`: Options of XLA that were measured to make compiled programs faster: for a platform, this jaxlib, and a
  program.

Helpers:

- `gc_pause`: Pauses Python's cyclic garbage collector.
- `jaxprs`: The equations of jaxprs and of the programs within them.
- `pytrees`: Names for what users pass in and get back, of which no type says more.
- `recursion`: Turns a RecursionError of a conversion or call into the error for programs that are too deep.
- `shown_names`: `shown`, a list of names as messages show it: the first ten, and how many there are besides.
- `source_lines`: Finds the line of a user's Python that an equation of a jaxpr comes from.
- `trace_state`: Tells whether code runs outside of all JAX transformations.
"""

import importlib
from typing import TYPE_CHECKING, Any

from graftax.convert._tensorflow import import_tensorflow
from graftax.convert.annotated import AnnotatedFunction
from graftax.convert.api import (
  convert,
  convert_from_restored,
  convert_functional,
  convert_functional_from_restored,
  convert_subgraph,
)
from graftax.convert.bound_threads import bind_threads_to_cores
from graftax.convert.compiled import jit
from graftax.convert.conversion import convert_program
from graftax.convert.errors import (
  ConversionError,
  ForwardModeError,
  InputError,
  MissingInputError,
  ParameterError,
  UnsupportedPrimitiveError,
  VariableWriteError,
)
from graftax.convert.evaluation.known_values import known_values
from graftax.convert.freed_memory import keep_freed_memory
from graftax.convert.host_ops.registry import host_op_modules
from graftax.convert.options import ConvertOptions, current_options, get_config, override_config, update_config
from graftax.convert.planning.custom_gradient import gradient_name
from graftax.convert.planning.preflight import Preflight, preflight
from graftax.convert.program import (
  Capture,
  CapturedTensor,
  CustomGradient,
  Program,
  SentencePieceModel,
  StringTable,
  StringVariable,
  UnavailableCapture,
)
from graftax.convert.structures.composite import CompositeTensor, IndexedSlices, RaggedTensor, SparseTensor
from graftax.convert.structures.named_tuples import as_named_tuple, named_tuple_class
from graftax.convert.structures.nested import InputStructure, OutputStructure, bind_names, keyword_structure
from graftax.convert.tables.graph_tables import filled_table, graph_filled_tables, table_capture, table_dtypes
from graftax.convert.variable import PlacedVariable, Variable, VariableSpec, split_trainable
from graftax.convert.xla_options import compiler_options
from graftax.graphdef_ir import LibraryNotFoundError, LimitExceededError, Limits
from graftax.ops_jax import BoundedArray, LookupTable, ResourceHandle, SizeBoundError

# Many programs need none of these, and some are slow to import.
if TYPE_CHECKING:
  from graftax.convert.host_split.host_arrays import HostArray
  from graftax.convert.host_split.host_calls import HostParts
  from graftax.convert.host_split.split import Split, split_program
  from graftax.convert.inference import FreezeReport, Frozen, freeze, jit_for_inference
  from graftax.convert.jax2tf.parameter_variables import variable_names
  from graftax.convert.jax2tf.program import jax_program
  from graftax.convert.source_code import Source, SourceError, to_source

__version__ = "0.1.0"

__all__ = [
  "AnnotatedFunction",
  "BoundedArray",
  "Capture",
  "CapturedTensor",
  "CompositeTensor",
  "ConversionError",
  "ConvertOptions",
  "CustomGradient",
  "ForwardModeError",
  "FreezeReport",
  "Frozen",
  "HostArray",
  "HostParts",
  "IndexedSlices",
  "InputError",
  "InputStructure",
  "LibraryNotFoundError",
  "LimitExceededError",
  "Limits",
  "LookupTable",
  "MissingInputError",
  "OutputStructure",
  "ParameterError",
  "PlacedVariable",
  "Preflight",
  "Program",
  "RaggedTensor",
  "ResourceHandle",
  "SizeBoundError",
  "SparseTensor",
  "Source",
  "SourceError",
  "Split",
  "SentencePieceModel",
  "StringTable",
  "StringVariable",
  "UnsupportedPrimitiveError",
  "UnavailableCapture",
  "Variable",
  "VariableSpec",
  "VariableWriteError",
  "as_named_tuple",
  "bind_names",
  "bind_threads_to_cores",
  "compiler_options",
  "convert",
  "convert_from_restored",
  "convert_functional",
  "convert_functional_from_restored",
  "convert_program",
  "convert_subgraph",
  "current_options",
  "filled_table",
  "freeze",
  "get_config",
  "gradient_name",
  "graph_filled_tables",
  "host_op_modules",
  "import_tensorflow",
  "jax_program",
  "jit",
  "jit_for_inference",
  "keep_freed_memory",
  "keyword_structure",
  "known_values",
  "named_tuple_class",
  "override_config",
  "preflight",
  "split_program",
  "split_trainable",
  "table_capture",
  "table_dtypes",
  "to_source",
  "update_config",
  "variable_names",
]

_IMPORTED_ON_USE = {
  "host_split.host_arrays": ("HostArray",),
  "host_split.host_calls": ("HostParts",),
  "host_split.split": ("Split", "split_program"),
  "inference": ("FreezeReport", "Frozen", "freeze", "jit_for_inference"),
  "jax2tf.parameter_variables": ("variable_names",),
  "jax2tf.program": ("jax_program",),
  "source_code": ("Source", "SourceError", "to_source"),
}


def __getattr__(name: str) -> Any:
  home = next((home for home, names in _IMPORTED_ON_USE.items() if name in names), None)
  if home is None:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
  return globals().setdefault(name, getattr(importlib.import_module(f"{__name__}.{home}"), name))


def __dir__() -> list[str]:
  return sorted({*globals(), *__all__})
