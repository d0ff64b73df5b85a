"""How ops carry arrays of bounded size: a table of rules by op, and what every rule is given."""

import dataclasses
import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import checkify
from jax.typing import DTypeLike

from graftax.graphdef_ir import Node, OpSignature
from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.errors import MissingBoundError, StaticInputError
from graftax.ops_jax._core.integer_facts import Affine, IntegerFacts
from graftax.ops_jax._core.known import canonical_dtype
from graftax.ops_jax._core.registry import BoundedRule, registered_bounded_rules
from graftax.ops_jax._core.stages import Run
from graftax.ops_jax._core.static_inputs import static_value
from graftax.ops_jax._core.values import Array, Value
from graftax.ops_jax.bounded.masks import any_overflow, as_bounded, filled, may_be_less, poisoned
from graftax.ops_jax.bounded.values import BoundedArray

__all__ = ["BoundedCall", "SizeRule", "carries", "bounded_rule", "makes", "ops_with_bounded_sizes", "ops_with_max_size"]


@dataclasses.dataclass(frozen=True, slots=True)
class BoundedCall:
  """One run of a node with an input or a result whose size depends on data.

  Attributes:
    context: the program that contains the node.
    node: the node.
    where: op, node and function, for messages.
    attrs: attributes with defaults.
    signature: the op's signature.
    run: the node's kernel for ordinary arrays.
  """

  context: Context
  node: Node
  where: str
  attrs: Mapping[str, Any]  # Any: validation has found that the values have their types
  signature: OpSignature | None
  run: Run

  @property
  def facts(self) -> IntegerFacts:
    """Facts about the traced integers of this evaluation."""
    return self.context.facts

  def dtype(self, attr: str, default: DTypeLike) -> np.dtype:
    """Returns the dtype that an attribute gives a result, as JAX has it.

    Args:
      attr: the name of an attribute that holds a dtype, such as "out_type".
      default: the dtype if the op has no such attribute.
    """
    declared = self.attrs.get(attr)
    return canonical_dtype(default if declared is None else declared.numpy)

  def run_one(self, *inputs: Value) -> Any:
    """Returns the first output of the node's kernel."""
    return self.run(self.context, inputs)[0]

  def filled(self, value: Value, neutral: Any) -> jax.Array:
    """Returns an input as a padded array with `neutral` in place of the padding.

    Args:
      value: an input, of bounded size or not; any dtype.
      neutral: a scalar that does not change the op's result, such as 0 in a sum. It is cast to the dtype of `value`.

    Returns:
      An array whose sizes are the bounds.
    """
    return filled(as_bounded(value), neutral)

  def marked(self, result: jax.Array, *inputs: Value) -> jax.Array:
    """Returns a result of inputs; NaN, an extreme integer or true if the data of an input exceeded a bound.

    Args:
      result: the result, any dtype.
      *inputs: the node's inputs that it was computed from. Those of ordinary arrays never mark it.
    """
    return poisoned(result, any_overflow(*inputs))

  def static(self, value: Value, kind: Any, name: str) -> Any:
    """Returns an input that must be known while tracing.

    Args:
      value: the input.
      kind: a type such as `int` or `tuple[int, ...]`, see `static_value`.
      name: the name of the op's input, for the message.

    Raises:
      StaticInputError: the input depends on traced data, or does not have the type.
    """
    return static_value(value, kind, f"{self.where}: input {name!r}")

  def refuse(self, why: str) -> NoReturn:
    """Raises the error for a size that this node cannot carry.

    Args:
      why: what the node cannot carry, for the message.

    Raises:
      StaticInputError: always.
    """
    raise StaticInputError(
      f"{self.where}: {why}. Under jit, sizes that depend on data are bounded, and this node cannot carry one exactly. "
      f"Call the function outside of jit and other transformations, where sizes are known, or end it before this node."
    )

  def bound(self, size: Affine, natural: int | None = None) -> tuple[int, bool]:
    """Returns a bound for a traced size, and whether the size may exceed it.

    Args:
      size: the size.
      natural: a bound that follows from shapes.

    Raises:
      MissingBoundError: no bound is known.
    """
    found = self.facts.greatest(size)
    sure = [bound for bound in (natural, found[0] if found is not None and found[1] else None) if bound is not None]
    wanted = self.max_size()
    least = functools.reduce(jax.core.min_dim, sure) if sure else None
    if wanted is not None and (least is None or may_be_less(wanted, least)):
      return wanted if least is None else jax.core.min_dim(wanted, least), True
    if least is not None:
      return jax.core.max_dim(least, 0), False
    if found is not None:
      return max(found[0], 0), True
    raise MissingBoundError(
      f"{self.where}: the size of the result depends on traced data, and no bound follows from shapes. Pass one with "
      f"the option max_sizes={{{self.node.name!r}: n}}, or max_sizes={{{self.node.op!r}: n}} for all nodes of this op; "
      f"or call the function outside of jit and other transformations.",
      self.node.name,
    )

  def max_size(self) -> int | None:
    """Returns the bound that the option `max_sizes` gives for this node, or None."""
    sizes = self.context.options.max_sizes or {}
    return sizes.get(self.node.name, sizes.get(self.node.op))

  def made(
    self, padded: Array, lengths: Sequence[jax.Array | None], may_overflow: bool = False
  ) -> BoundedArray | jax.Array:
    """Returns a result of bounded size, and notes the bounds of its lengths.

    Args:
      padded: the result at its largest size.
      lengths: for each axis, an integer scalar that counts the valid elements, or None if all are valid.
      may_overflow: whether a length may be larger than the axis, in which case the data were cut off.

    Returns:
      An ordinary array if all lengths are None.
    """
    if all(length is None for length in lengths):
      return jnp.asarray(padded)
    for length, size in zip(lengths, padded.shape, strict=True):
      if length is not None:
        self._note_length(length, size, may_overflow)
    return BoundedArray(jnp.asarray(padded), tuple(lengths), may_overflow)

  def _note_length(self, length: jax.Array, size: int, may_overflow: bool) -> None:
    known = self.facts.greatest(Affine(((length, 1),), 0))
    if known is None or may_be_less(size, known[0]):
      self.facts.note_range(length, 0, size, is_certain=not may_overflow)
    if may_overflow and self.context.options.enable_checkify_for_asserts:
      checkify.check(
        length <= size, self.where.replace("{", "{{").replace("}", "}}") + ": {n} elements exceed the bound {size}",
        n=length, size=jnp.asarray(size),
      )  # fmt: skip


# Maps the flat inputs of a node to its flat outputs.
SizeRule = Callable[[BoundedCall, Sequence[Value]], Sequence[Value]]


_RULES: dict[str, BoundedRule] = {}

_MODULES = (
  "concat_split",
  "creation",
  "ctc_decoders",
  "dynamic_dimensions",
  "dynamic_partition",
  "elementwise",
  "gather",
  "matmul",
  "non_max_suppression",
  "ragged",
  "ragged_variant",
  "reduction",
  "reverse_roll",
  "rows",
  "scatter",
  "segment",
  "select_where",
  "shape_ops",
  "slicing",
  "sort_search",
  "sparse_tensor",
  "tensor_list",
  "unique",
)


def carries(*ops: str) -> Callable[[SizeRule], SizeRule]:
  """Returns a decorator that makes a function the rule of ops for inputs of bounded size."""
  return functools.partial(_add, ops, makes=False, has_max_size=False)


def makes(*ops: str, has_max_size: bool = True) -> Callable[[SizeRule], SizeRule]:
  """Returns a decorator like `carries`, for ops whose result also has a bounded size if certain inputs are traced.

  The rule runs if the ordinary lowering raises `StaticInputError`.

  Args:
    *ops: names of the ops.
    has_max_size: whether the option `max_sizes` can bound the results.
  """
  return functools.partial(_add, ops, makes=True, has_max_size=has_max_size)


def _add(ops: tuple[str, ...], rule: SizeRule, *, makes: bool, has_max_size: bool) -> SizeRule:
  for op in ops:
    assert op not in _RULES, f"internal: two rules for {op}"
    _RULES[op] = BoundedRule(rule, makes, has_max_size)
  return rule


def bounded_rule(op: str) -> BoundedRule | None:
  """Returns the rule of an op, or None if it cannot carry arrays of bounded size.

  A rule that was passed to `register` replaces the built-in one.

  Example:
    >>> bounded_rule("TopKV2").has_max_size, bounded_rule("FFT")
    (True, None)
  """
  _load()
  registered = registered_bounded_rules().get(op)
  if registered == "elementwise":
    return _RULES["Abs"]
  return registered or _RULES.get(op)


def ops_with_bounded_sizes() -> frozenset[str]:
  """Returns the names of the ops that carry arrays whose sizes depend on data, under `jit`.

  Example:
    >>> {"Where", "GatherV2", "Mean"} <= ops_with_bounded_sizes(), "FFT" in ops_with_bounded_sizes()
    (True, False)
  """
  _load()
  return frozenset(_RULES) | frozenset(registered_bounded_rules())


def ops_with_max_size() -> frozenset[str]:
  """Returns the names of the ops whose results the option `max_sizes` can bound, besides loops.

  Example:
    >>> "Where" in ops_with_max_size(), "Sum" in ops_with_max_size()
    (True, False)
  """
  return frozenset(
    op for op in ops_with_bounded_sizes() if (rule := bounded_rule(op)) is not None and rule.has_max_size
  )


@functools.cache
def _load() -> None:
  for module in _MODULES:
    importlib.import_module(f"graftax.ops_jax.bounded.{module}")
