"""The optimizer ops: ResourceApplyAdam, ApplyAdam, ResourceSparseApplyMomentum, SparseApplyMomentum and so on.

`OPTIMIZERS` has one row per optimizer, from which all its ops are made. The signature of the step function is the
schema: variables and numbers are the op's inputs, in the op's order, and keyword-only parameters are its attributes.
"""

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

from graftax.ops_jax._core.context import Context, ResourceHandle
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array
from graftax.ops_jax.optimizers import steps
from graftax.ops_jax.optimizers.application import apply_step, apply_step_to_rows

__all__ = ["OPTIMIZERS", "Optimizer"]


@dataclasses.dataclass(frozen=True, slots=True)
class Optimizer:
  """One optimizer, and which ops TensorFlow has for it.

  Attributes:
    name: what follows `Apply` in the op names.
    num_variables: how many of the leading parameters of `step` are variables.
    step: the arithmetic; its signature is the schema of the ops.
    by_rows: whether TensorFlow has `ResourceSparseApply` too, which takes `indices` after the gradient.
    for_references: whether TensorFlow has the same ops for TF1 reference variables, without the prefix `Resource`.
  """

  name: str
  num_variables: int
  step: steps.Step
  by_rows: bool = True
  for_references: bool = True


OPTIMIZERS = (
  Optimizer("GradientDescent", 1, steps.gradient_descent, by_rows=False),
  Optimizer("ProximalGradientDescent", 1, steps.proximal_gradient_descent),
  Optimizer("Momentum", 2, steps.momentum),
  Optimizer("KerasMomentum", 2, steps.keras_momentum, for_references=False),
  Optimizer("Adam", 3, steps.adam, by_rows=False),
  Optimizer("AdamWithAmsgrad", 4, steps.adam_with_amsgrad, by_rows=False, for_references=False),
  Optimizer("AdaMax", 3, steps.ada_max, by_rows=False),
  Optimizer("Adagrad", 2, steps.adagrad),
  Optimizer("AdagradV2", 2, steps.adagrad_v2),
  Optimizer("AdagradDA", 3, steps.adagrad_da),
  Optimizer("ProximalAdagrad", 2, steps.proximal_adagrad),
  Optimizer("Adadelta", 3, steps.adadelta),
  Optimizer("RMSProp", 3, steps.rms_prop),
  Optimizer("CenteredRMSProp", 4, steps.centered_rms_prop),
  Optimizer("Ftrl", 3, steps.ftrl),
  Optimizer("FtrlV2", 3, steps.ftrl_v2),
  Optimizer("AddSign", 2, steps.add_sign, by_rows=False),
  Optimizer("PowerSign", 2, steps.power_sign, by_rows=False),
)

# The two descents call their gradient `delta` in the dense op only.
_GRADIENT_NAMES = ("grad", "delta")


def _register_ops(optimizer: Optimizer) -> None:
  for by_rows in (False, True) if optimizer.by_rows else (False,):
    name = f"{'Sparse' if by_rows else ''}Apply{optimizer.name}"
    ignores = ("T", "Tindices", "use_locking") if by_rows else ("T", "use_locking")
    update = _update_rows(optimizer) if by_rows else _update_all(optimizer)
    schema = _schema(optimizer, by_rows)
    register(f"Resource{name}", ignores=ignores)(_lowering(f"Resource{name}", schema, update, returns_variable=False))
    if optimizer.for_references:
      register(name, ignores=ignores)(_lowering(name, schema, update, returns_variable=True))


def _update_all(optimizer: Optimizer) -> Callable[..., None]:
  def update(ctx: Context, *inputs: Any, **attrs: Any) -> None:
    variables, numbers = inputs[: optimizer.num_variables], inputs[optimizer.num_variables :]
    apply_step(ctx, variables, functools.partial(optimizer.step, **attrs), *numbers)

  return update


def _update_rows(optimizer: Optimizer) -> Callable[..., None]:
  names = list(inspect.signature(optimizer.step).parameters)
  position = next(i for i, name in enumerate(names) if name in _GRADIENT_NAMES)

  def update(ctx: Context, *inputs: Any, **attrs: Any) -> None:
    grad, indices = inputs[position : position + 2]
    before, after = inputs[optimizer.num_variables : position], inputs[position + 2 :]

    def step(*rows_and_gradient: Array) -> tuple[Array, ...]:
      *rows, row_gradient = rows_and_gradient
      return optimizer.step(*rows, *before, row_gradient, *after, **attrs)

    apply_step_to_rows(ctx, inputs[: optimizer.num_variables], step, grad, indices)

  return update


def _schema(optimizer: Optimizer, by_rows: bool) -> inspect.Signature:
  """Returns the signature of the lowering: that of the step, with handles for the variables, and a context."""
  kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
  parameters = [inspect.Parameter("ctx", kind, annotation=Context)]
  for position, parameter in enumerate(inspect.signature(optimizer.step).parameters.values()):
    if position < optimizer.num_variables:
      parameters.append(parameter.replace(annotation=ResourceHandle))
    elif by_rows and parameter.name in _GRADIENT_NAMES:
      parameters += [inspect.Parameter(name, kind, annotation=Array) for name in ("grad", "indices")]
    else:
      parameters.append(parameter)
  return inspect.Signature(parameters)


def _lowering(op: str, schema: inspect.Signature, update: Callable[..., None], *, returns_variable: bool) -> Any:
  def lowering(ctx: Context, *inputs: Any, **attrs: Any) -> ResourceHandle | tuple[()]:
    update(ctx, *inputs, **attrs)
    # The ops for TF1 reference variables return the variable that they changed.
    return inputs[0] if returns_variable else ()

  lowering.__name__ = lowering.__qualname__ = re.sub(r"(?<!^)(?=[A-Z])", "_", op).lower()
  lowering.__signature__ = schema  # type: ignore[attr-defined]
  lowering.__annotations__ = {name: parameter.annotation for name, parameter in schema.parameters.items()}
  return lowering


for _optimizer in OPTIMIZERS:
  _register_ops(_optimizer)
