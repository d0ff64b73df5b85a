"""Translates what a function of a SavedModel closes over, for a `Program`: captures and custom gradients."""

from collections.abc import Sequence

import numpy as np

from graftax.convert import (
  Capture,
  CapturedTensor,
  ConversionError,
  CustomGradient,
  ResourceHandle,
  StringVariable,
  UnavailableCapture,
  gradient_name,
)
from graftax.graphdef_ir import DType, Function, TensorRef, reachable_functions
from graftax.savedmodel_io.errors import DamagedSavedModelError
from graftax.savedmodel_io.model_parts import ModelParts
from graftax.savedmodel_io.objects.captures import (
  AssetCapture,
  ConstantCapture,
  ResourceCapture,
  VariableCapture,
)
from graftax.savedmodel_io.objects.captures import Capture as SavedCapture
from graftax.savedmodel_io.objects.object_graph import CapturedTensorObject
from graftax.savedmodel_io.programs.tables import restored_resource
from graftax.savedmodel_io.variables.variables import VariableInfo

__all__ = ["convert_capture", "custom_gradients_of", "variable_capture"]


def convert_capture(model: ModelParts, capture: SavedCapture, function: str) -> Capture:
  match capture:
    case VariableCapture():
      return variable_capture(model, model.variables.infos[capture.name])
    case ConstantCapture():
      return capture.value.numpy()
    case AssetCapture():
      return np.asarray(str(capture.path).encode(), object)
    case ResourceCapture():
      return restored_resource(model, capture.name)
  raise ConversionError(
    f"function {function!r} captures {capture}, which is neither a variable nor a constant and has no JAX counterpart."
  )


def variable_capture(model: ModelParts, info: VariableInfo) -> Capture:
  if info.dtype.base is DType.STRING:
    return StringVariable(f"variable {info.name!r} holds strings", np.asarray(model.variables[info.name], object))
  return ResourceHandle(info.name)


def custom_gradients_of(model: ModelParts, function: Function) -> dict[str, CustomGradient]:
  """Returns the derivatives that the model was saved with and that `function` refers to, by their names."""
  library = model.graph.library
  gradients: dict[str, CustomGradient] = {}
  pending = [function]
  while pending:
    current = pending.pop()
    called = (library[name] for name in reachable_functions(current, library))
    for node in (node for body in (current, *called) for node in body.nodes):
      op_type = gradient_name(node)
      if op_type is not None and op_type not in gradients and op_type in library.registered_gradients:
        gradients[op_type] = _gradient(model, library.registered_gradients[op_type])
        pending.append(library[gradients[op_type].function])
  return gradients


def _gradient(model: ModelParts, name: str) -> CustomGradient:
  concrete = model.concrete_function(name)
  if not isinstance(concrete.outputs, Sequence) or not isinstance(concrete.args, Sequence):
    raise DamagedSavedModelError(f"gradient function {name!r}: its arguments and results are not sequences")
  results: list[int | None] = []
  for leaf in concrete.outputs:
    results.append(None if leaf is None else sum(r is not None for r in results))
  return CustomGradient(
    name,
    # The first argument is the op itself, which TensorFlow passes as None.
    takes=tuple(leaf is not None for leaf in concrete.args[1:]),
    results=tuple(results),
    captures=tuple(_gradient_capture(model, capture, name) for capture in concrete.captures),
  )


def _gradient_capture(
  model: ModelParts, capture: SavedCapture, function: str
) -> CapturedTensor | ResourceHandle | np.ndarray:
  if isinstance(capture, CapturedTensorObject):
    return CapturedTensor(capture.concrete_function, TensorRef.parse(capture.tensor))
  found = convert_capture(model, capture, function)
  if isinstance(found, UnavailableCapture):
    raise ConversionError(f"gradient function {function!r}: {found.what}, which has no JAX counterpart.")
  return found
