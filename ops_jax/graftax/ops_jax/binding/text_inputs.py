"""Strings among a node's inputs: JAX has none, so the op is computed at once, with all of its inputs known.

Indices and conditions for strings, as in `tf.gather(labels, tf.argmax(scores))`, are often JAX arrays. Outside of `jit`
their values can be read. A lowering that does no more than rearrange the strings runs on their positions instead.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from graftax.graphdef_ir import AttrValue, DType, OpArg, OpSignature, UnsupportedError
from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.errors import StaticInputError
from graftax.ops_jax._core.registry import Lowering
from graftax.ops_jax._core.stages import Run
from graftax.ops_jax._core.values import Value
from graftax.ops_jax.int64_pairs.dispatch import data_positions
from graftax.ops_jax.int64_pairs.pairs import Int64Pair

__all__ = ["KnownBesideText", "known_beside_text"]


@dataclasses.dataclass(frozen=True, slots=True)
class KnownBesideText:
  """Converts the other inputs of a node with strings to known arrays.

  Attributes:
    where: the node, for messages.
    text: positions of the flat inputs that are strings.
    is_rearranged: whether the lowering does no more with the strings than rearrange them.
  """

  where: str
  text: frozenset[int]
  is_rearranged: bool

  def __str__(self) -> str:
    return "strings: other inputs become known" + (", positions in place of strings" if self.is_rearranged else "")

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
      if self.is_rearranged and not traced:
        return self._on_positions(run, context, inputs)
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

  def _on_positions(self, run: Run, context: Context, inputs: Sequence[Value]) -> tuple[Value, ...]:
    """Runs the op on the position of each string in a table, whose first entry is what TensorFlow fills gaps with.

    `graftax.convert.host_ops.rearranging` does the same in heads and tails, with NumPy alone.
    """
    table, replaced = [np.array([b""], object)], list(inputs)
    start = 1
    for position in sorted(self.text):
      strings = np.asarray(inputs[position], object)
      table.append(strings.reshape(-1))
      replaced[position] = np.arange(start, start + strings.size, dtype=np.int32).reshape(strings.shape)
      start += strings.size
    all_strings = np.concatenate(table)
    with jax.ensure_compile_time_eval():
      positions = run(context, replaced)
    # The index has an axis more, because NumPy returns bytes for one of rank 0.
    return tuple(all_strings[np.asarray(p)[None]].reshape(np.shape(p)) for p in positions)


def known_beside_text(
  signature: OpSignature | None, attrs: Mapping[str, AttrValue], lowering: Lowering, where: str
) -> KnownBesideText | None:
  """Returns the stage for a node with strings and other inputs, or None for any other node."""
  if signature is None or len(signature.inputs) < 2:
    return None
  for arg in signature.inputs:  # a loop, because `any` with a generator takes three times as long
    if _is_text(arg, attrs):
      break
  else:
    return None
  declared = [
    arg for arg, size in zip(signature.inputs, signature.input_sizes(attrs), strict=True) for _ in range(size)
  ]
  text = frozenset(position for position, arg in enumerate(declared) if _is_text(arg, attrs))
  only_text = all(_is_text(result, attrs) for result in signature.outputs)
  return KnownBesideText(where, text, only_text and text <= data_positions(lowering, signature, attrs))


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
