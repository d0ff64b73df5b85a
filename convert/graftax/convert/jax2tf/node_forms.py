"""The forms in which a traced JAX function becomes nodes: one StableHLO module, or plain TensorFlow ops."""

import dataclasses
import hashlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import jax

from graftax.convert.errors import ConversionError
from graftax.convert.jax2tf.module_nodes import FunctionBody, call_module, prevent_gradient, tensor_specs
from graftax.convert.jax2tf.short_integer_nodes import casts, casts_from_bytes, casts_to_bytes
from graftax.convert.jax2tf.short_integers import whole_bytes
from graftax.convert.jax2tf.traced_function import TracedFunction
from graftax.graphdef_ir import GraftaxError, Node, TensorRef

if TYPE_CHECKING:
  from graftax.xla_call_module.exporting import CallModule, Target

__all__ = ["LoweringName", "NodeForm", "PlainOps", "StableHlo", "node_form", "unique_name"]

LoweringName: TypeAlias = Literal["stablehlo", "tf_ops"]

# TensorFlow's error is `No gradient defined for operation 'NAME' (op type: XlaCallModule).`
_LAST_DERIVATIVE = "last_derivative_of_this_file__increase_gradient_order"


_DIGEST_LENGTH = 12


class NodeForm(Protocol):
  """How traced functions become nodes."""

  differentiates_itself: bool
  """Whether TensorFlow differentiates the nodes, if no gradient is registered for them."""

  def description(self, traced: TracedFunction) -> str:
    """Returns text that differs for functions that compute different things."""
    ...

  def refusal(self, traced: TracedFunction) -> Exception | None:
    """Returns the error of a function that no target of this form can run, such as one that calls back to Python."""
    ...

  def body(self, traced: TracedFunction, operands: Sequence[TensorRef], prefix: str) -> FunctionBody:
    """Returns nodes that compute a function of tensors; names of functions that they call begin with `prefix`."""
    ...

  def last_derivative(self, traced: TracedFunction, operands: Sequence[TensorRef], prefix: str) -> FunctionBody:
    """Returns nodes for the highest order of derivatives that a program has."""
    ...

  def without_derivative(
    self, body: FunctionBody, traced: TracedFunction, error: Exception, order: int
  ) -> FunctionBody:
    """Returns the nodes of a function that JAX cannot differentiate, with the number of orders before it."""
    ...


@dataclasses.dataclass(frozen=True)
class StableHlo:
  """One XlaCallModule node for each function; see `export_call_module` for the fields."""

  target: "Target | str | None" = None
  platforms: Sequence[str] | None = None
  disabled_checks: tuple[jax.export.DisabledSafetyCheck, ...] = ()
  differentiates_itself = False

  def module(self, traced: TracedFunction) -> "CallModule":
    """Returns the module of a function."""
    return traced.call_module(self.target, platforms=self.platforms, disabled_checks=self.disabled_checks)

  def description(self, traced: TracedFunction) -> str:
    return repr(sorted(self.module(traced).attributes.items()))

  def refusal(self, traced: TracedFunction) -> Exception | None:
    from graftax.xla_call_module import LiftError, UnsupportedModuleError

    try:
      self.module(traced)
    except LiftError:  # a custom call that this target does not have; it is raised when the body is made
      return None
    except UnsupportedModuleError as e:
      return e
    return None

  def body(self, traced: TracedFunction, operands: Sequence[TensorRef], prefix: str) -> FunctionBody:
    del prefix  # a module contains the functions that it calls
    return _called(self.module(traced), traced, operands)

  def last_derivative(self, traced: TracedFunction, operands: Sequence[TensorRef], prefix: str) -> FunctionBody:
    # Not a PreventGradient: JAX can still differentiate what the module computes.
    del prefix
    return _called(self.module(traced), traced, operands, _LAST_DERIVATIVE)

  def without_derivative(
    self, body: FunctionBody, traced: TracedFunction, error: Exception, order: int
  ) -> FunctionBody:
    del order
    return _without_derivative(body, traced, error)


def _called(
  module: "CallModule", traced: TracedFunction, operands: Sequence[TensorRef], name: str = "XlaCallModule"
) -> FunctionBody:
  """Returns the node that runs the module of a function, between casts of integers below 8 bits."""
  inputs, outputs = tensor_specs(traced.inputs, "input"), tensor_specs(traced.outputs, "output")
  before, given = casts_to_bytes(operands, inputs, tensor_specs(module.inputs, "input"), "operand_bytes")
  body = call_module(module, given, name)
  after, results = casts_from_bytes(body.results, body.specs, outputs, "result_bits")
  return FunctionBody((*before, *body.nodes, *after), results, outputs)


@dataclasses.dataclass(frozen=True)
class PlainOps:
  """Plain TensorFlow ops; `consumer` is the converter that will read them, or None for TensorFlow."""

  consumer: str | None = None
  differentiates_itself = True

  def description(self, traced: TracedFunction) -> str:
    from graftax.convert.jax2tf.tf_ops.plain_ops import description

    return description(traced) + (self.consumer or "")

  def refusal(self, traced: TracedFunction) -> Exception | None:
    del traced  # What has no form in plain ops is refused with a list of all operations.
    return None

  def body(self, traced: TracedFunction, operands: Sequence[TensorRef], prefix: str) -> FunctionBody:
    from graftax.convert.jax2tf.tf_ops.plain_ops import plain_ops

    before, given = _through_bytes(operands, traced.inputs, "operand_bytes")
    body = plain_ops(traced, given, prefix, self.consumer)
    after, results = _through_bytes(body.results, traced.outputs, "result_bytes")
    return dataclasses.replace(body, nodes=(*before, *body.nodes, *after), results=results)

  def last_derivative(self, traced: TracedFunction, operands: Sequence[TensorRef], prefix: str) -> FunctionBody:
    return self.body(traced, operands, prefix)

  def without_derivative(
    self, body: FunctionBody, traced: TracedFunction, error: Exception, order: int
  ) -> FunctionBody:
    # Beyond the first order, as if `gradient_order` were lower. Grappler removes PreventGradient from graphs that only
    # run, so converters of such graphs do not meet it.
    return body if order else _without_derivative(body, traced, error)


def _through_bytes(
  refs: Sequence[TensorRef], specs: Sequence[jax.ShapeDtypeStruct], name: str
) -> tuple[tuple[Node, ...], tuple[TensorRef, ...]]:
  """Returns nodes that convert integers below 8 bits to whole bytes and back, which XLA cannot compile."""
  short, whole = tensor_specs(specs, "array"), tensor_specs(list(map(whole_bytes, specs)), "array")
  to_bytes, found = casts_to_bytes(refs, short, whole, name)
  back, found = casts(found, whole, short, f"{name}_back")
  return (*to_bytes, *back), found


def _without_derivative(body: FunctionBody, traced: TracedFunction, error: Exception) -> FunctionBody:
  # JAX has a derivative that TensorFlow cannot run, if the error is one of ours.
  reason = (
    f"{traced.name} has no derivative in TensorFlow"
    if isinstance(error, GraftaxError)
    else f"JAX cannot differentiate {traced.name}"
  )
  return prevent_gradient(body, f"{reason}: {type(error).__name__}: {error}")


def unique_name(form: NodeForm, traced: TracedFunction, *more: object) -> str:
  """Returns the name of a function with a digest of what it computes, so that several fit in one library."""
  described = repr((form.description(traced), *more))
  digest = hashlib.sha256(described.encode()).hexdigest()[:_DIGEST_LENGTH]
  return f"{re.sub(r'[^A-Za-z0-9_]', '_', traced.name)}_{digest}"


def node_form(
  lowering: str,
  *,
  target: "Target | str | None" = None,
  platforms: Sequence[str] | None = None,
  disabled_checks: Sequence[jax.export.DisabledSafetyCheck] = (),
) -> NodeForm:
  """Returns the form of a name, with the options that it has.

  Raises:
    ConversionError: the name is unknown, or the form does not support one of the options.
  """
  if lowering == "stablehlo":
    return StableHlo(target, platforms, tuple(disabled_checks))
  if lowering != "tf_ops":
    raise ConversionError(f"lowering={lowering!r}; expected 'stablehlo' or 'tf_ops'.")
  from graftax.convert.jax2tf.tf_ops.missing_ops import CONSUMERS

  consumer = target if isinstance(target, str) and target in CONSUMERS else None
  if consumer is not None:
    target = None
  given = {"target": target, "platforms": platforms, "disabled_checks": tuple(disabled_checks) or None}
  unused = [f"{name}={value!r}" for name, value in given.items() if value is not None]
  if unused:
    raise ConversionError(
      f"lowering='tf_ops' makes no StableHLO, so {' and '.join(unused)} would have no effect. Leave it out, or name "
      f"the converter that will read the ops: {' or '.join(f'target={name!r}' for name in CONSUMERS)}."
    )
  return PlainOps(consumer)
