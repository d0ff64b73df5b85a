"""The head of a split model, run by TensorFlow."""

import dataclasses
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from graftax.convert import Program, SentencePieceModel
from graftax.graphdef_ir import Node, TensorRef
from graftax.savedmodel_io.export._tensorflow import import_tensorflow
from graftax.savedmodel_io.writing.new_model import write_saved_model

__all__ = ["TensorFlowFunction"]

# Any in this module: TensorFlow ships no type information, and elements are numbers or bytes.

_NAME = "head"


class TensorFlowFunction:
  """A program that TensorFlow runs, on flat NumPy arrays.

  TensorFlow loads it from a SavedModel in a temporary folder.
  """

  def __init__(self, program: Program):
    """Loads the program in TensorFlow.

    Args:
      program: the program; its arguments and results are flat.

    Raises:
      LibraryNotFoundError: TensorFlow is not installed.
      UnsupportedSavedModelError: the program captures a resource that cannot be saved.
    """
    self._program = program
    self._tf = import_tensorflow("running the head of a split model with TensorFlow")
    with tempfile.TemporaryDirectory() as folder:
      path = Path(folder, _NAME)
      write_saved_model(path, {_NAME: _with_models_as_nodes(program)})
      # Tables and variables live as long as the loaded object.
      self._loaded = self._tf.saved_model.load(str(path))

  def __call__(self, flat: Sequence[Any]) -> list[np.ndarray]:
    """Returns flat results for flat arguments."""
    specs = self._program.inputs.specs
    tensors = [self._tf.constant(_plain(value), spec.dtype.tf_name) for value, spec in zip(flat, specs, strict=True)]
    return [_array(result) for result in getattr(self._loaded, _NAME)(*tensors)]

  def __reduce__(self) -> tuple[Any, ...]:
    return TensorFlowFunction, (self._program,)


def _plain(value: Any) -> Any:
  array = np.asarray(value)
  return array.tolist() if array.dtype == object else array


def _array(tensor: Any) -> np.ndarray:
  value = tensor.numpy()
  if isinstance(value, bytes):
    array = np.empty((), object)
    array[()] = value
    return array
  return np.asarray(value)


def _with_models_as_nodes(program: Program) -> Program:
  """Returns the program with nodes that make the models of SentencePiece that it captures."""
  function = program.function
  start = len(function.parameters) - len(program.captures)
  pairs = list(zip(function.parameters[start:], program.captures, strict=True))
  made = [
    Node(f"{p.name}/model", "SentencepieceOp", (), attrs={"model": c.data})
    for p, c in pairs
    if isinstance(c, SentencePieceModel)
  ]
  kept = [(p, c) for p, c in pairs if not isinstance(c, SentencePieceModel)]
  renamed = {TensorRef(node.name.removesuffix("/model")): TensorRef(node.name) for node in made}
  nodes = tuple(
    dataclasses.replace(node, inputs=tuple(renamed.get(ref, ref) for ref in node.inputs)) for node in function.nodes
  )
  parameters = (*function.parameters[:start], *(p for p, _ in kept))
  return dataclasses.replace(
    program,
    function=dataclasses.replace(function, parameters=parameters, nodes=(*made, *nodes)),
    captures=tuple(c for _, c in kept),
  )
