"""Strings among a node's inputs: JAX has none, so the op is computed at once, with all of its inputs known.

Indices and conditions for strings, as in `tf.gather(labels, tf.argmax(scores))`, are often JAX arrays. Outside of `jit`
their values can be read. A lowering that only rearranges or compares the strings runs on numbers in their place.
"""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from graftax.graphdef_ir import AttrValue, DType, OpArg, OpSignature, UnsupportedError
from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.errors import StaticInputError
from graftax.ops_jax._core.registry import Lowering
from graftax.ops_jax._core.stages import Run, flat_sizes
from graftax.ops_jax._core.values import Value
from graftax.ops_jax.int64_pairs.pairs import Int64Pair

__all__ = ["KnownBesideText", "known_beside_text"]

# Arrays of strings -> arrays of numbers of the same shapes, and the strings by number. Number 0 is the empty string,
# because JAX fills gaps with zeros, and TensorFlow with empty strings.
_Numbering = Callable[[Sequence[np.ndarray]], tuple[list[np.ndarray], np.ndarray]]


@dataclasses.dataclass(frozen=True, slots=True)
class KnownBesideText:
  """Converts the other inputs of a node with strings to known arrays, and the strings to numbers if that suffices.

  Attributes:
    where: the node, for messages.
    text: positions of the flat inputs that are strings.
    results: dtypes of the flat results.
    numbering: how strings are numbered; None if the lowering does more than to rearrange and compare them.
  """

  where: str
  text: tuple[int, ...]
  results: tuple[DType, ...]
  numbering: _Numbering | None

  def __str__(self) -> str:
    return "strings: other inputs become known" + ("" if self.numbering is None else ", numbers in place of strings")

  def wrap(self, run: Run) -> Run:
    """See `Stage`.

    Raises:
      StaticInputError: from the returned function, if the op cannot be computed because another input is traced.
      UnsupportedError: from the returned function, if the lowering does not handle strings.
    """

    def with_known(context: Context, inputs: Sequence[Value]) -> tuple[Value, ...]:
      if not all(isinstance(inputs[position], np.ndarray) for position in self.text):
        return run(context, inputs)
      traced = [leaf for leaf in jax.tree.leaves(list(inputs)) if isinstance(leaf, jax.core.Tracer)]
      inputs = [_as_known(value) for value in inputs]
      if self.numbering is not None and not traced:
        return self._on_numbers(run, self.numbering, context, inputs)
      try:
        return run(context, inputs)
      except TypeError as e:  # of JAX, or of NumPy
        if traced:
          raise _refusal(self.where, traced) from e
        raise UnsupportedError(
          f"{self.where}: the op has no form for strings here. If it precedes or follows all computation, "
          f"SavedModel.split moves it to the host. ({e})"
        ) from e

    return with_known

  def _on_numbers(
    self, run: Run, numbering: _Numbering, context: Context, inputs: Sequence[Value]
  ) -> tuple[Value, ...]:
    numbers, strings = numbering([np.asarray(inputs[position], object) for position in self.text])
    replaced = list(inputs)
    for position, array in zip(self.text, numbers, strict=True):
      replaced[position] = array
    with jax.ensure_compile_time_eval():
      outputs = run(context, replaced)
    return tuple(
      _looked_up(strings, np.asarray(value)) if dtype is DType.STRING else value
      for value, dtype in zip(outputs, self.results, strict=True)
    )


def known_beside_text(
  signature: OpSignature | None, attrs: Mapping[str, AttrValue], lowering: Lowering, where: str
) -> KnownBesideText | None:
  """Returns the stage for a node with strings among its inputs, or None for any other node."""
  if signature is None:
    return None
  for arg in signature.inputs:  # a loop, because `any` with a generator takes three times as long
    if _is_text(arg, attrs):
      break
  else:
    return None
  arguments = list(zip(signature.inputs, lowering.inputs, flat_sizes(signature, attrs), strict=True))
  are_text = [_is_text(arg, attrs) for arg, _, size in arguments for _ in range(size)]
  text = tuple(position for position, is_text in enumerate(are_text) if is_text)
  names = {parameter.name for arg, parameter, _ in arguments if _is_text(arg, attrs)}
  numbering = None
  if names <= lowering.data_inputs:
    numbering = _number_by_position
  elif names <= lowering.data_inputs | lowering.compared_inputs:
    numbering = _number_by_value
  return KnownBesideText(where, text, tuple(signature.output_types(attrs)), numbering)


def _is_text(arg: OpArg, attrs: Mapping[str, AttrValue]) -> bool:
  return arg.type_attr is not None and attrs.get(arg.type_attr) is DType.STRING


def _refusal(where: str, traced: Sequence[Any]) -> StaticInputError:
  return StaticInputError(
    f"{where}: the result is text that depends on traced data ({', '.join(str(t.aval) for t in traced)}), and JAX has "
    "no strings. Call the function outside of jit and other transformations, or convert the numbers that choose the "
    "text and look it up in Python; if the op precedes or follows all computation, SavedModel.split moves it to the "
    "host."
  )


def _as_known(value: Value) -> Value:
  is_concrete = isinstance(value, jax.Array | Int64Pair) and not any(
    isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(value)
  )
  return np.asarray(value) if is_concrete else value


def _number_by_position(arrays: Sequence[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
  numbers, end = [], 1
  for array in arrays:
    numbers.append(np.arange(end, end + array.size, dtype=np.int32).reshape(array.shape))
    end += array.size
  return numbers, np.concatenate([np.array([b""], object), *(array.reshape(-1) for array in arrays)])


def _number_by_value(arrays: Sequence[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
  """Gives equal strings equal numbers, in the order of the strings; takes longer."""
  flat = [array.reshape(-1).tolist() for array in arrays]
  strings = sorted({b"", *itertools.chain.from_iterable(flat)})
  number = {string: position for position, string in enumerate(strings)}
  numbers = [
    np.array([number[item] for item in items], np.int32).reshape(array.shape)
    for items, array in zip(flat, arrays, strict=True)
  ]
  return numbers, np.array(strings, object)


def _looked_up(strings: np.ndarray, numbers: np.ndarray) -> np.ndarray:
  # The index has an axis more, because NumPy returns bytes for one of rank 0.
  return strings[numbers[None]].reshape(numbers.shape)
