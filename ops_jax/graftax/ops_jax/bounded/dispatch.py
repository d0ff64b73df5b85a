"""The stage of a kernel that applies the rule of an op to arrays of bounded size."""

import dataclasses
from collections.abc import Mapping, Sequence

import jax

from graftax.graphdef_ir import AttrValue, Node, OpSignature, traits_of
from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.errors import StaticInputError
from graftax.ops_jax._core.stages import Run
from graftax.ops_jax._core.values import Value
from graftax.ops_jax.bounded.rules import BoundedCall, bounded_rule
from graftax.ops_jax.bounded.values import BoundedArray

__all__ = ["CarryBounded", "carry_bounded"]


@dataclasses.dataclass(frozen=True, slots=True)
class CarryBounded:
  """Applies the rule of an op if an input has a bounded size, or the result must have one.

  Attributes:
    node: the node.
    where: description of the node, for messages.
    attrs: the node's attributes and the op's defaults.
    signature: the op's signature, or None.
  """

  node: Node
  where: str
  attrs: Mapping[str, AttrValue]
  signature: OpSignature | None

  def __str__(self) -> str:
    return "sizes that depend on data: " + ("refused" if bounded_rule(self.node.op) is None else "bounded")

  def wrap(self, run: Run) -> Run:
    """See `Stage`.

    Raises:
      StaticInputError: from the returned function, if the op cannot carry an array of bounded size.
    """

    def carry(context: Context, inputs: Sequence[Value]) -> tuple[Value, ...]:
      for value in inputs:
        if type(value) is BoundedArray:
          return apply(context, _cut_concrete(inputs))
      try:
        return run(context, inputs)
      except StaticInputError:
        # The first look-up imports all rules, so it is made only here and for an input of bounded size.
        entry = bounded_rule(self.node.op)
        if entry is None or not entry.makes or not any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(inputs)):
          raise
      return tuple(entry.function(self._call(context, run), inputs))

    def apply(context: Context, inputs: Sequence[Value]) -> tuple[Value, ...]:
      if not any(type(value) is BoundedArray for value in inputs):
        return carry(context, inputs)
      call = self._call(context, run)
      entry = bounded_rule(self.node.op)
      if entry is None:
        call.refuse("an input has a size that depends on data")
      return tuple(entry.function(call, inputs))

    return carry

  def _call(self, context: Context, run: Run) -> BoundedCall:
    return BoundedCall(context, self.node, self.where, self.attrs, self.signature, run)


def carry_bounded(
  node: Node, where: str, attrs: Mapping[str, AttrValue], signature: OpSignature | None
) -> CarryBounded | None:
  """Returns the stage for a node with inputs, unless its lowering passes them on itself."""
  # A `For` computes with its start, limit and delta itself, so their sizes must not depend on data.
  passes_on = traits_of(node.op).calls not in (None, "for") or node.op == "IdentityN"
  return None if not node.inputs or passes_on else CarryBounded(node, where, attrs, signature)


def _cut_concrete(inputs: Sequence[Value]) -> list[Value]:
  """Returns the inputs with those of bounded size cut whose sizes are not traced."""
  return [value.cut() if type(value) is BoundedArray and not _is_traced(value) else value for value in inputs]


def _is_traced(value: BoundedArray) -> bool:
  return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(value))
