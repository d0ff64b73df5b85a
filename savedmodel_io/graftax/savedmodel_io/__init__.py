"""SavedModels and TensorFlow checkpoints, read and written without TensorFlow.

`load` reads a SavedModel or another file with a graph, `CheckpointReader` a checkpoint. Both map the data files into
memory; arrays are views of the mapping if the format allows it. `read_weights` returns parameters by name, from all of
these and from Keras files.

`save` writes JAX functions and their parameters as a SavedModel, `SavedModel.save` a model that was read with other
values, `write_saved_model` any programs, and `write_checkpoint` a checkpoint. `rewrite` writes a model for another
TensorFlow or a converter, and `write_stablehlo` models and JAX functions for compilers. `write_host_parts` writes what
runs on the host around the source of a split model.

`nest`, `unnest` and `rename` bring parameters into the form that other programs take, and `match` into a model that
somebody else wrote. `read_safetensors`,
`write_safetensors`, `read_orbax` and `write_orbax` are for files of other libraries.

`JaxModule`, `ExportManager` and the names around them are those of orbax.export. They use TensorFlow if it is imported.

A model is read:

- `saved_model`: `load`, and the `SavedModel` that it returns.
- `model_parts`: what is stored in a model, each part decoded on first use.
- `files`: the files of a model, besides its checkpoint.
- `chunked`: messages above 2 GB.
- `objects`: the object graph: functions and resources, and the structure of their arguments.
- `variables`: the variables, and the tensors of the checkpoint that hold their values.
- `checkpoint`: TensorFlow's checkpoint formats.
- `signatures`: named entry points with named inputs and outputs.
- `graph_signature`: the signature of a graph that came without signatures.
- `programs`: what can be called, as a `graftax.convert.Program`.
- `notebook_view`: what notebooks show of a model.

Weights of and for other libraries:

- `keras_files`: weights in files of Keras.
- `parameters`: parameters under other names, and in files of other libraries.
- `matching`: `match`, parameters in a model that somebody else wrote.

Models are written:

- `writing`: writers of checkpoints and SavedModels.
- `export`: `JaxModule` and `ExportManager`.
- `stablehlo_files`: `write_stablehlo`, for IREE and other compilers.
- `host_files`: head and tail of a split model in a folder of their own.

Helpers:

- `errors`: the errors of this package.
- `pytrees`: names of types for what users pass in and models have stored.
"""

import importlib
from typing import TYPE_CHECKING, Any

from graftax.graphdef_ir import LimitExceededError, Limits
from graftax.savedmodel_io.checkpoint.reader import CheckpointReader, read_checkpoint
from graftax.savedmodel_io.checkpoint.state import checkpoint_paths, latest_checkpoint
from graftax.savedmodel_io.files.graph_file import is_graph_file
from graftax.savedmodel_io.files.saved_model_pb import is_saved_model
from graftax.savedmodel_io.objects.functions import ConcreteFunction, Resource, RestoredFunction
from graftax.savedmodel_io.parameters.renaming import Renaming, rename
from graftax.savedmodel_io.saved_model import SavedModel, load
from graftax.savedmodel_io.signatures import Signature
from graftax.savedmodel_io.variables.nesting import nest, unnest
from graftax.savedmodel_io.variables.sharding import partition_rules
from graftax.savedmodel_io.variables.variables import VariableInfo, Variables

# Importing these takes 30 ms and more, and programs that only read do not need them.
if TYPE_CHECKING:
  from graftax.savedmodel_io.export.batching import make_auto_batching_function, with_default_args
  from graftax.savedmodel_io.export.callable_signatures import CallableSignatures
  from graftax.savedmodel_io.export.dtensor import (
    Mesh,
    dtensor_initialized,
    get_current_dtensor_mesh,
    get_current_mesh,
    get_pspec_from_jax_arrays,
    initialize_dtensor,
    jax_mesh_to_dtensor_mesh,
    maybe_enable_dtensor_export_on,
    shutdown_dtensor,
  )
  from graftax.savedmodel_io.export.dtensor_arrays import jax_array_to_dtensor
  from graftax.savedmodel_io.export.export_manager import ExportManager
  from graftax.savedmodel_io.export.input_specs import TensorSpecWithDefault, remove_signature_defaults
  from graftax.savedmodel_io.export.jax_module import JaxModule
  from graftax.savedmodel_io.export.serving_config import ServingConfig
  from graftax.savedmodel_io.host_files import read_host_parts, write_host_parts
  from graftax.savedmodel_io.keras_files.read import is_keras_file, read_weights
  from graftax.savedmodel_io.matching.comparison import Comparison, LayerDifference
  from graftax.savedmodel_io.matching.layouts import Recipe
  from graftax.savedmodel_io.matching.match import Ambiguity, Matching, Placement, match
  from graftax.savedmodel_io.parameters.orbax_checkpoints import read_orbax, write_orbax
  from graftax.savedmodel_io.parameters.safetensors_files import read_safetensors, write_safetensors
  from graftax.savedmodel_io.stablehlo_files import write_stablehlo
  from graftax.savedmodel_io.writing.checkpoint import write_checkpoint
  from graftax.savedmodel_io.writing.jax_function import JaxFunction
  from graftax.savedmodel_io.writing.new_model import write_saved_model
  from graftax.savedmodel_io.writing.rewritten_copy import rewrite
  from graftax.savedmodel_io.writing.save import save

__version__ = "0.1.0"

__all__ = [
  "Ambiguity",
  "CallableSignatures",
  "CheckpointReader",
  "Comparison",
  "ConcreteFunction",
  "ExportManager",
  "JaxFunction",
  "JaxModule",
  "LayerDifference",
  "LimitExceededError",
  "Limits",
  "Matching",
  "Mesh",
  "Placement",
  "Recipe",
  "Renaming",
  "Resource",
  "RestoredFunction",
  "SavedModel",
  "ServingConfig",
  "Signature",
  "TensorSpecWithDefault",
  "VariableInfo",
  "Variables",
  "checkpoint_paths",
  "dtensor_initialized",
  "get_current_dtensor_mesh",
  "get_current_mesh",
  "get_pspec_from_jax_arrays",
  "initialize_dtensor",
  "is_graph_file",
  "is_keras_file",
  "is_saved_model",
  "jax_array_to_dtensor",
  "jax_mesh_to_dtensor_mesh",
  "latest_checkpoint",
  "load",
  "make_auto_batching_function",
  "match",
  "maybe_enable_dtensor_export_on",
  "nest",
  "partition_rules",
  "read_checkpoint",
  "read_weights",
  "read_host_parts",
  "read_orbax",
  "read_safetensors",
  "remove_signature_defaults",
  "rename",
  "rewrite",
  "save",
  "shutdown_dtensor",
  "unnest",
  "with_default_args",
  "write_checkpoint",
  "write_host_parts",
  "write_orbax",
  "write_safetensors",
  "write_saved_model",
  "write_stablehlo",
]

_LAZY = {
  "Ambiguity": "matching.match",
  "CallableSignatures": "export.callable_signatures",
  "Comparison": "matching.comparison",
  "ExportManager": "export.export_manager",
  "JaxFunction": "writing.jax_function",
  "JaxModule": "export.jax_module",
  "LayerDifference": "matching.comparison",
  "Matching": "matching.match",
  "Mesh": "export.dtensor",
  "Placement": "matching.match",
  "Recipe": "matching.layouts",
  "ServingConfig": "export.serving_config",
  "TensorSpecWithDefault": "export.input_specs",
  "dtensor_initialized": "export.dtensor",
  "get_current_dtensor_mesh": "export.dtensor",
  "get_current_mesh": "export.dtensor",
  "get_pspec_from_jax_arrays": "export.dtensor",
  "initialize_dtensor": "export.dtensor",
  "is_keras_file": "keras_files.read",
  "jax_array_to_dtensor": "export.dtensor_arrays",
  "jax_mesh_to_dtensor_mesh": "export.dtensor",
  "make_auto_batching_function": "export.batching",
  "match": "matching.match",
  "maybe_enable_dtensor_export_on": "export.dtensor",
  "read_weights": "keras_files.read",
  "read_host_parts": "host_files",
  "read_orbax": "parameters.orbax_checkpoints",
  "read_safetensors": "parameters.safetensors_files",
  "remove_signature_defaults": "export.input_specs",
  "rewrite": "writing.rewritten_copy",
  "save": "writing.save",
  "shutdown_dtensor": "export.dtensor",
  "with_default_args": "export.batching",
  "write_checkpoint": "writing.checkpoint",
  "write_host_parts": "host_files",
  "write_orbax": "parameters.orbax_checkpoints",
  "write_safetensors": "parameters.safetensors_files",
  "write_saved_model": "writing.new_model",
  "write_stablehlo": "stablehlo_files",
}


def __getattr__(name: str) -> Any:
  if name not in _LAZY:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
  module = importlib.import_module(f"{__name__}.{_LAZY[name]}")
  return globals().setdefault(name, getattr(module, name))


def __dir__() -> list[str]:
  return sorted({*globals(), *__all__})
