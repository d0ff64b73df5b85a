"""Kernels: lowerings bound to one node each, with attributes decoded and stages chosen once per node.

`print(kernel)` shows the function that is called, its attributes, and the stages that the inputs pass first:

    ConcatV2 node 'join' (function 'main'): graftax.ops_jax.array.concat_split.concat_v2()
      promote floats: inputs (0, 1)
      symbolic dimensions: computed on if all inputs are known
      group lists: [0:2], 2
      decode static inputs: axis as int
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graftax.graphdef_ir import AttrValue, Node, OpSignature, traits_of
from graftax.ops_jax._core.errors import InvalidInputError, RegistrationError, as_invalid_input
from graftax.ops_jax._core.precision import promote_floats
from graftax.ops_jax._core.registry import Lowering, is_builtin
from graftax.ops_jax._core.registry import lowering as registered_lowering
from graftax.ops_jax._core.result_sizes import CheckSizes, factor_of, growth_of
from graftax.ops_jax._core.stages import CallLowering, Run, Stage, describe_function, group_lists
from graftax.ops_jax._core.static_inputs import decode_static
from graftax.ops_jax.binding.attributes import decode_attrs
from graftax.ops_jax.binding.no_gradients import NOT_DIFFERENTIABLE, StopGradients
from graftax.ops_jax.binding.symbolic_inputs import resolve_symbols
from graftax.ops_jax.binding.text_inputs import known_beside_text
from graftax.ops_jax.bounded.dispatch import carry_bounded
from graftax.ops_jax.int64_pairs.dispatch import (
  DispatchInt64Pairs,
  data_positions,
  exact_positions,
  has_int64,
  needs_all_bits,
)

__all__ = ["Kernel", "bind", "context_kernel"]

# Ops that run a program, whose parts are checked: evaluating them twice would take twice as long.
_PROGRAMS = frozenset({"XlaCallModule"})


@dataclasses.dataclass(frozen=True, slots=True)
class Kernel:
  """A lowering bound to one node.

  Attributes:
    where: op, node and function, for messages.
    stages: the steps that process the inputs, in this order, before the call.
    call: the lowering's function with its attributes.
    sizes: what is checked right before the call; None for ops that call functions, whose nodes are checked.
    run: `(context, flat inputs) -> flat outputs`: the stages and the call, composed once.
    is_pure: the lowering does not receive the context, and so cannot read state.
  """

  where: str
  stages: tuple[Stage, ...]
  call: CallLowering
  sizes: CheckSizes | None = dataclasses.field(default=None, repr=False)
  run: Run = dataclasses.field(init=False, repr=False, compare=False)
  is_pure: bool = dataclasses.field(init=False, repr=False, compare=False)

  def __post_init__(self) -> None:
    run = self.call.run()
    if self.sizes is not None:
      run = self.sizes.wrap(run)
    for stage in reversed(self.stages):
      run = stage.wrap(run)
    object.__setattr__(self, "run", run)
    object.__setattr__(self, "is_pure", not self.call.needs_context)

  def refusal(self, error: Exception) -> InvalidInputError | None:
    """Returns the error to raise in place of what `run` raised, if that does not say that the inputs are invalid.

    Errors of lowerings that others have registered are theirs.
    """
    module = getattr(self.call.function, "__module__", "")
    is_ours = module.startswith("graftax.") and not module.endswith("_test")
    return as_invalid_input(error, self.where) if is_ours else None

  def __str__(self) -> str:
    return "\n  ".join([f"{self.where}: {self.call}", *map(str, self.stages)])


def bind(node: Node, signature: OpSignature | None, lowering: Lowering, function_name: str = "") -> Kernel:
  """Returns the kernel of a node.

  Args:
    node: the node.
    signature: the op's signature, for list inputs and attribute defaults; None for an unknown op, whose
      inputs are then passed one by one.
    lowering: the lowering to run.
    function_name: for messages.

  Raises:
    RegistrationError: the lowering has more or fewer inputs than the op.
    UnsupportedAttrError: the node sets an attribute that the lowering neither accepts nor ignores, or a value that
      the annotated type cannot hold.

  Example:
    >>> from graftax.graphdef_ir import DType, op_signature
    >>> from graftax.ops_jax import lowering
    >>> node = Node("y", "Softmax", attrs={"T": DType.FLOAT})
    >>> print(bind(node, op_signature("Softmax"), lowering("Softmax"), "main"))
    Softmax node 'y' (function 'main'): graftax.ops_jax.nn.activations.softmax()
  """
  where = f"{node.op} node {node.name!r} (function {function_name!r})"
  attrs = dict(node.attrs) if signature is None else signature.with_defaults(node.attrs)
  _check_num_inputs(node, signature, lowering, where)
  outer: list[Stage] = []
  text = known_beside_text(signature, attrs, lowering, where)
  if text is not None:
    outer.append(text)
  carry = carry_bounded(node, where, attrs, signature)
  if carry is not None:
    outer.append(carry)
  promote = promote_floats(signature, attrs)
  if promote is not None:
    outer.append(promote)
  dispatch = _dispatch_pairs(node, attrs, signature, lowering, where) if has_int64(signature, attrs) else None
  if dispatch is not None:
    outer.append(dispatch)
  return _bind(node, attrs, signature, lowering, where, outer)


def context_kernel(where: str, function: Callable[..., Any]) -> Kernel:
  """Returns a kernel that calls `function(context, *inputs)`, for a node that has no lowering of its own.

  Args:
    where: op, node and function, for messages.
    function: gets the evaluator at the node, and the node's inputs in order. It returns what a lowering returns: the
      output, or a tuple of outputs.
  """
  return Kernel(where, (), CallLowering(function, {}, needs_context=True))


def _bind(
  node: Node,
  attrs: Mapping[str, AttrValue],
  signature: OpSignature | None,
  lowering: Lowering,
  where: str,
  outer: Sequence[Stage] = (),
) -> Kernel:
  """Returns a kernel whose first stages are given."""
  decoded = decode_attrs(node, attrs, signature, lowering, where)
  call = CallLowering(lowering.function, decoded, lowering.needs_context, lowering.needs_facts, lowering.needs_budget)
  # Binding takes half of the conversion time of a large graph, so the stages are collected without a comprehension.
  stages = [*outer]
  for stage in (
    resolve_symbols(lowering, signature, attrs),
    group_lists(signature, attrs),
    decode_static(lowering, where),
  ):
    if stage is not None:
      stages.append(stage)
  # A user may register a lowering for the sake of its derivative.
  if node.op in NOT_DIFFERENTIABLE and is_builtin(lowering.function):
    stages.append(StopGradients())
  return Kernel(where, tuple(stages), call, _check_sizes(node.op, lowering, decoded, where))


def _check_num_inputs(node: Node, signature: OpSignature | None, lowering: Lowering, where: str) -> None:
  num_inputs = len(node.inputs if signature is None else signature.inputs)
  if num_inputs != len(lowering.inputs):
    raise RegistrationError(
      f"{where}: the op has {num_inputs} inputs, but {describe_function(lowering.function)} has "
      f"{[parameter.name for parameter in lowering.inputs]!r}."
    )


def _check_sizes(op: str, lowering: Lowering, attrs: Mapping[str, Any], where: str) -> CheckSizes | None:
  if traits_of(op).calls is not None or op in _PROGRAMS:
    return None
  return CheckSizes(lowering.static_inputs, factor_of(attrs), where, growth_of(lowering.function))


def _exact_positions(
  node: Node, lowering: Lowering, signature: OpSignature | None, attrs: Mapping[str, AttrValue]
) -> frozenset[int]:
  # The nodes of functions that an op calls are checked themselves.
  calls = traits_of(node.op).calls is not None
  return frozenset(range(len(node.inputs))) if calls else exact_positions(lowering, signature, attrs)


def _dispatch_pairs(
  node: Node, attrs: Mapping[str, AttrValue], signature: OpSignature | None, lowering: Lowering, where: str
) -> DispatchInt64Pairs | None:
  """Returns the stage for a node with 64-bit integers, or None if its lowering accepts pairs itself."""
  for_pairs = registered_lowering(node.op, int64_pairs=True)
  if for_pairs is not None and for_pairs.function is lowering.function:
    return None
  kernel = None
  if for_pairs is not None and signature is not None:
    _check_num_inputs(node, signature, for_pairs, where)
    kernel = _bind(node, attrs, signature, for_pairs, where)
  return DispatchInt64Pairs(
    where,
    None if kernel is None else kernel.run,
    "" if kernel is None else str(kernel.call),
    data_positions(lowering, signature, attrs),
    traits_of(node.op).reads_shapes,
    needs_all_bits(node, attrs),
    functools.partial(_exact_positions, node, lowering, signature, attrs),
  )
