"""`CustomCall`: a custom call of a tool's own, with its derivative and its way to run on batches."""

import abc
from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar, Self, TypeAlias

import jax
from jax import Array

from graftax.xla_call_module import errors, values
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.ir import Op, TensorType, Type
from graftax.xla_call_module.registry import register_custom_call, unknown_settings

__all__ = ["CustomCall"]

Results: TypeAlias = Array | Sequence[Array]


class CustomCall(abc.ABC):
  """A custom call of your own: subclass it, and pass an instance to `lift`, or register it for all modules.

  Only `compute` is required. It is JAX code, so it may use `jax.ffi.ffi_call` for a kernel of your own. Derivatives and
  batches of it are JAX's, unless `pull_back` and `run_batch` say others.

  Attributes:
    target: the name of the call in modules.
    settings: names of its attributes that `compute` reads, besides those that every custom call may have; a call with
      any other attribute does not lift. None disables this check.

  Example:
    >>> import jax, numpy as np
    >>> from graftax.xla_call_module import CustomCall, Module, lift
    >>> class Double(CustomCall):
    ...   target = "acme.double"
    ...   def compute(self, op, *operands):
    ...     return operands[0] * 2
    ...   def pull_back(self, op, operands, results, cotangents):
    ...     return [cotangents[0] * 10]
    >>> module = Module.from_text('''
    ... func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
    ...   %0 = stablehlo.custom_call @acme.double(%x) : (tensor<3xf32>) -> tensor<3xf32>
    ...   return %0 : tensor<3xf32>
    ... }''')
    >>> double = lift(module, custom_calls={"acme.double": Double()})
    >>> print(jax.grad(lambda x: double(x)[0].sum())(np.ones(3, np.float32)))
    [10. 10. 10.]
  """

  target: ClassVar[str]
  settings: ClassVar[Collection[str] | None] = None

  @abc.abstractmethod
  def compute(self, op: Op, *operands: Array) -> Results:
    """Returns the result of the call, or its results in order.

    Args:
      op: the call. `op.attrs` holds its settings as Python values, `op.types` the types of its results.
      *operands: arrays.
    """

  def pull_back(
    self, op: Op, operands: Sequence[Array], results: Sequence[Array], cotangents: Sequence[Array]
  ) -> Sequence[Array | None]:
    """Returns the cotangents of the operands; None for one that has no derivative.

    If a subclass has it, reverse mode uses it, and forward mode raises JAX's TypeError. It is differentiated for second
    derivatives.

    Args:
      op: the call.
      operands: its operands.
      results: its results.
      cotangents: those of the results.
    """
    raise NotImplementedError

  def run_batch(self, op: Op, size: int, is_batched: Sequence[bool], *operands: Array) -> Results:
    """Returns the results for a batch, each with the batch as axis 0.

    If a subclass has it, `vmap` uses it in place of mapping `compute`.

    Args:
      op: the call, with the types of one element.
      size: the size of the batch.
      is_batched: for each operand, whether its axis 0 is the batch.
      *operands: arrays.
    """
    raise NotImplementedError

  def register(self, *, override: bool = False) -> Self:
    """Uses this call in all modules of the process, and returns it.

    Args:
      override: replace a rule for the same target.

    Raises:
      ValueError: a rule is registered for the target already, and `override` is false.
    """

    def rule(context: Context, op: Op, *operands: Any) -> tuple[Array, ...]:
      return self(op, *operands)

    register_custom_call(self.target, attributes=self.settings, override=override)(rule)
    return self

  def __call__(self, op: Op, *operands: object) -> tuple[Array, ...]:
    """Runs the call with its derivative and its batching; `lift` and registered rules call this."""
    if any(operand is values.TOKEN for operand in operands):
      raise errors.LiftError(
        f"{op.place}: {type(self).__name__} has no side effects, and the call takes a token.", op=op.name
      )
    self._check_settings(op)
    arrays = [jax.numpy.asarray(values.materialize(operand)) for operand in operands]

    def computed(*operands: Array) -> tuple[Array, ...]:
      return _as_tuple(self.compute(op, *operands))

    function: Any = computed  # JAX's decorators return classes of their own
    if type(self).run_batch is not CustomCall.run_batch:
      function = jax.custom_batching.custom_vmap(computed)

      @function.def_vmap
      def _(size: int, is_batched: Sequence[bool], *operands: Array) -> tuple[tuple[Array, ...], tuple[bool, ...]]:
        results = _as_tuple(self.run_batch(op, size, is_batched, *operands))
        self._check_batch(op, size, results)
        return results, (True,) * len(results)

    if type(self).pull_back is not CustomCall.pull_back:
      function = self._with_pull_back(op, function)
    elif function is not computed:
      function = _with_derivative_of(computed, function)
    return _as_tuple(function(*arrays))

  def _check_settings(self, op: Op) -> None:
    if unknown := unknown_settings(op.attrs, self.settings):
      listed = ", ".join(f"{name} = {op.attrs[name]!r}" for name in unknown)
      raise errors.LiftError(
        f"{op.place}: {type(self).__name__} reads {sorted(self.settings or ())}, and the call has {listed}, which may"
        " change the result.",
        op=op.name,
        location=op.location,
      )

  def _check_batch(self, op: Op, size: int, results: Sequence[Array]) -> None:
    """Checks the results of `run_batch`, since JAX believes that they are batches."""
    wanted = [f"[{', '.join(map(str, (size, *_dims(kind))))}]" for kind in op.types]
    found = [f"[{', '.join(map(str, jax.numpy.shape(result)))}]" for result in results]
    fits = len(results) == len(op.types) and all(
      _fits(jax.numpy.shape(result), (size, *_dims(kind))) for result, kind in zip(results, op.types, strict=True)
    )
    if not fits:
      raise errors.ArgumentError(
        f"{op.place}: run_batch of {type(self).__name__} returned arrays {', '.join(found)}; expected"
        f" {', '.join(wanted)}, with the batch as axis 0."
      )

  def _with_pull_back(self, op: Op, function: Any) -> Any:
    def forward(*operands: Array) -> tuple[tuple[Array, ...], Any]:
      results = _as_tuple(differentiable(*operands))  # so that second derivatives use the rule for them, too
      return results, (operands, results)

    def backward(residuals: Any, cotangents: Sequence[Array]) -> tuple[Array | None, ...]:
      operands, results = residuals
      return tuple(self.pull_back(op, operands, results, cotangents))

    differentiable = jax.custom_vjp(function)
    differentiable.defvjp(forward, backward)
    return differentiable


def _with_derivative_of(computed: Callable[..., tuple[Array, ...]], function: Any) -> Any:
  """Returns `function` with the derivative of `computed`, since JAX has none of functions with batching rules."""

  def jvp(operands: Sequence[Array], tangents: Sequence[Array]) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    return _as_tuple(differentiable(*operands)), jax.jvp(computed, operands, tangents)[1]

  differentiable = jax.custom_jvp(function)
  differentiable.defjvp(jvp)
  return differentiable


def _dims(kind: Type) -> tuple[int | None, ...]:
  return kind.shape if isinstance(kind, TensorType) else ()


def _fits(shape: Sequence[int], wanted: Sequence[int | None]) -> bool:
  """Returns whether a shape has the wanted sizes; None matches any size."""
  return len(shape) == len(wanted) and all(want in (None, size) for size, want in zip(shape, wanted, strict=True))


def _as_tuple(results: Results) -> tuple[Array, ...]:
  return tuple(results) if isinstance(results, Sequence) else (results,)
