"""The head of a split model, run by TensorFlow."""

import tempfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from graftax.convert import InputError, Program
from graftax.graphdef_ir import (
  GraftaxError,
  LibraryNotFoundError,
  Node,
  op_signature,
  outside_access,
  reachable_functions,
)
from graftax.savedmodel_io.errors import UnsafeOpError
from graftax.savedmodel_io.export._tensorflow import TfTensor, import_tensorflow
from graftax.savedmodel_io.programs.model_nodes import with_models_as_nodes
from graftax.savedmodel_io.pytrees import Leaf
from graftax.savedmodel_io.writing.new_model import write_saved_model

__all__ = ["TensorFlowFunction"]

_NAME = "head"


class TensorFlowFunction:
  """A program that TensorFlow runs, on flat NumPy arrays.

  TensorFlow loads it from a SavedModel in a temporary folder.
  """

  def __init__(self, program: Program, allow_ops: Collection[str] = ()):
    """Loads the program in TensorFlow.

    Args:
      program: the program; its arguments and results are flat.
      allow_ops: ops that may reach outside of the program, such as "ReadFile".

    Raises:
      UnsafeOpError: the program has ops that reach outside of it and are not among `allow_ops`.
      LibraryNotFoundError: TensorFlow is not installed, or does not have the head's ops until another library is
        imported.
      UnsupportedSavedModelError: the program captures a resource that cannot be saved.
    """
    _check_ops(program, allow_ops)
    self._program = program
    self._allow_ops = frozenset(allow_ops)
    self._tf = import_tensorflow("running the head of a split model with TensorFlow")
    with tempfile.TemporaryDirectory() as folder:
      path = Path(folder, _NAME)
      write_saved_model(path, {_NAME: with_models_as_nodes(program)})
      # Tables and variables live as long as the loaded object.
      self._loaded = self._load(str(path))

  def _load(self, path: str) -> Any:
    try:
      return self._tf.saved_model.load(path)
    except Exception as e:  # for ops that it does not know, TensorFlow raises several classes, also FileNotFoundError
      if "Op type not registered" not in str(e):
        raise
      raise LibraryNotFoundError(
        f"running the head of {self._program.name!r} with TensorFlow needs ops that the installed TensorFlow does not "
        f"have ({_first_line(e)}). Import the library that has them first, such as tensorflow_text for tokenizers."
      ) from e

  def __call__(self, flat: Sequence[Leaf]) -> list[np.ndarray]:
    """Returns flat results for flat arguments.

    Raises:
      InputError: a value is malformed.
    """
    specs = self._program.inputs.specs
    tensors = [self._tf.constant(_plain(value), spec.dtype.tf_name) for value, spec in zip(flat, specs, strict=True)]
    try:
      return [_array(result) for result in getattr(self._loaded, _NAME)(*tensors)]
    except self._tf.errors.InvalidArgumentError as e:
      raise InputError(f"{self._program.name}: TensorFlow refuses a value of the head: {_reason(e)}.") from e

  def __reduce__(self) -> tuple[Any, ...]:
    return TensorFlowFunction, (self._program, self._allow_ops)


def _check_ops(program: Program, allow_ops: Collection[str]) -> None:
  """Raises one error that lists the nodes which reach outside of the program."""
  found: dict[str, tuple[str, list[str]]] = {}
  for function, node in _reached_nodes(program):
    if node.op in allow_ops or node.op in program.library:
      continue
    access = outside_access(node, is_stateful=_is_stateful(node.op, program))
    if access is not None:
      found.setdefault(node.op, (access, []))[1].append(f"{node.name!r} in {function!r}")
  if found:
    lines = [f"  {op} x{len(places)} {access}: {places[0]}" for op, (access, places) in sorted(found.items())]
    raise UnsafeOpError(
      "\n".join(
        [
          f"{program.name!r}: TensorFlow is to run the head, which has ops that reach outside of the model:",
          *lines,
          f"If you trust the model, pass allow_ops={sorted(found)!r} to `split`.",
        ]
      )
    )


def _reached_nodes(program: Program) -> Iterator[tuple[str, Node]]:
  """Yields the name of a function and a node of it, for the program's function and all that it can call."""
  for node in program.function.nodes:
    yield program.function.name, node
  for name in reachable_functions(program.function, program.library):
    for node in program.library[name].nodes:
      yield name, node


def _is_stateful(op: str, program: Program) -> bool:
  # A model brings signatures of ops that we do not know. They belong to libraries that the caller has imported.
  try:
    return op_signature(op).is_stateful
  except GraftaxError:
    signature = program.signatures.get(op)
    return signature is None or signature.is_stateful


def _first_line(error: Exception) -> str:
  return str(error).strip().partition("\n")[0].removesuffix(".")


def _reason(error: Exception) -> str:
  """Returns an error of TensorFlow without the heading and the place in TensorFlow's graph."""
  lines = [line.strip() for line in str(error).splitlines() if line.strip()]
  said = [line for line in lines if not line.startswith(("Graph execution error", "Detected at node", "[[", "<stack"))]
  return (said or lines or [type(error).__name__])[0].removesuffix(".")


def _plain(value: object) -> Any:
  array = np.asarray(value)
  return array.tolist() if array.dtype == object else array


def _array(tensor: TfTensor) -> np.ndarray:
  value = tensor.numpy()
  if isinstance(value, bytes):
    array = np.empty((), object)
    array[()] = value
    return array
  return np.asarray(value)
