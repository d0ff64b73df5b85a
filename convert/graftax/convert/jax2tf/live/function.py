"""`LiveFunction`: a traced JAX function as nodes in TensorFlow graphs."""

import dataclasses
import threading
from collections.abc import Callable, Sequence
from typing import Any

from graftax.convert._tensorflow import TensorFlow, TfFunction, TfGraph, TfTensor, in_save_context, without_autograph
from graftax.convert.jax2tf.live.constants import LiveConstant
from graftax.convert.jax2tf.live.eager import call_eagerly
from graftax.convert.jax2tf.live.nodes import function_nodes, open_shape
from graftax.convert.jax2tf.node_forms import NodeForm, StableHlo
from graftax.convert.jax2tf.program_assembly import NO_GRADIENT
from graftax.convert.jax2tf.short_integers import is_short_integer
from graftax.convert.jax2tf.traced_function import TracedFunction

__all__ = ["LiveFunction"]

_NO_MORE_GRADIENTS = (
  "The SavedModel has no further derivatives of this function. Save it with a larger `gradient_order` of "
  "graftax.convert.jax2tf.convert"
)


@dataclasses.dataclass(frozen=True, eq=False)
class LiveFunction:
  """A traced JAX function with the options of one `convert`.

  Attributes:
    traced: the function.
    form: how it becomes nodes.
    constants: the values of its last arguments, after those of the caller; a gradient takes them from its function.
    depth: 0 for a function that was converted, 1 for its gradient, and so on.
  """

  traced: TracedFunction
  form: NodeForm
  constants: tuple[LiveConstant, ...] = ()
  depth: int = 0
  _made: dict[Any, Any] = dataclasses.field(default_factory=dict, init=False, repr=False)
  _lock: threading.RLock = dataclasses.field(default_factory=threading.RLock, init=False, repr=False)

  def gradient(self) -> "LiveFunction":
    """Returns the function from arguments and cotangents to cotangents; see `TracedFunction.gradient`."""
    with self._lock:
      if "gradient" not in self._made:
        traced = self.traced.gradient()
        self._made["gradient"] = LiveFunction(traced, self.form, depth=self.depth + 1)
      found: LiveFunction = self._made["gradient"]
      return found

  @property
  def _is_differentiable(self) -> bool:
    return bool(self.traced.differentiable_inputs and self.traced.differentiable_outputs)

  def call(self, tf: TensorFlow, args: Sequence[TfTensor], order: int) -> list[TfTensor]:
    """Returns the results for flat tensors: values in eager code, and new nodes in a graph.

    Args:
      tf: TensorFlow.
      args: a tensor for each flat argument.
      order: see `nodes`.
    """
    if not tf.executing_eagerly():
      return self.nodes(tf, args, order)
    if order > 0 and not self._is_differentiable:
      args = [tf.stop_gradient(arg) for arg in args]

    def gradient(results: Sequence[TfTensor], cotangents: Sequence[TfTensor]) -> list[TfTensor]:
      if order == 0:
        # The error of tf.raw_ops.PreventGradient, which `nodes` uses.
        raise LookupError(f"Gradient explicitly disabled. Reason: {NO_GRADIENT.encode()!r}")
      return self._cotangents(tf, args, results, cotangents, order)

    return call_eagerly(tf, self._compiled(tf), args, gradient)

  def concrete(self, tf: TensorFlow, order: int) -> TfFunction:
    """Returns the function as a ConcreteFunction of flat tensors; see `nodes` for `order`."""
    return self._concrete(tf, order, lambda args: self.nodes(tf, args, order))

  def _compiled(self, tf: TensorFlow) -> TfFunction:
    """Returns the function as a ConcreteFunction without gradient. XLA compiles a module as a whole.

    That makes calls from eager code faster.
    """
    # XLA packs integers below 8 bits, so the casts around the module must not be compiled.
    is_compiled = isinstance(self.form, StableHlo) and not any(
      is_short_integer(spec.dtype) for spec in (*self.traced.inputs, *self.traced.outputs)
    )
    settings = {"jit_compile": True} if is_compiled else {}
    return self._concrete(tf, "compiled", lambda args: self._computed(tf, args), **settings)

  def _computed(self, tf: TensorFlow, args: Sequence[TfTensor]) -> list[TfTensor]:
    with self._lock:
      return function_nodes(tf, self.form, self.traced, args)

  def _concrete(
    self, tf: TensorFlow, key: Any, body: Callable[[Sequence[TfTensor]], list[TfTensor]], **settings: Any
  ) -> TfFunction:
    with self._lock:
      if key not in self._made:
        specs = [tf.TensorSpec(open_shape(spec), spec.dtype) for spec in self.traced.inputs]

        def converted_fun_tf(*args: TfTensor) -> tuple[TfTensor, ...]:
          return tuple(body(args))

        with tf.init_scope():
          function = tf.function(converted_fun_tf, autograph=False, **settings)
          self._made[key] = function.get_concrete_function(*specs)
      return self._made[key]

  def nodes(
    self, tf: TensorFlow, args: Sequence[TfTensor], order: int, *, no_gradient: str = NO_GRADIENT
  ) -> list[TfTensor]:
    """Returns the results, computed by new nodes in the current graph.

    Args:
      tf: TensorFlow.
      args: a tensor for each flat argument.
      order: how many orders of derivatives `tf.saved_model.save` keeps; all orders are available until then. If it is
        0, differentiating the results raises an error, before and after saving.
      no_gradient: the message of that error.
    """
    args = [tf.identity(arg, f"jax2tf_arg_{i}") for i, arg in enumerate(args)]
    if order == 0:
      results = self._computed(tf, args)
      results = [tf.raw_ops.PreventGradient(input=result, message=no_gradient) for result in results]
    elif self._is_differentiable:
      results = self._differentiable(tf, args, order)
    else:
      results = self._computed(tf, args)
      results = [tf.stop_gradient(result) for result in results]
    return [tf.identity(result, "jax2tf_out") for result in results]

  def _differentiable(self, tf: TensorFlow, args: Sequence[TfTensor], order: int) -> list[TfTensor]:
    graph = tf.compat.v1.get_default_graph()
    if order > 1 and isinstance(graph, tf.__internal__.FuncGraph):
      self._keep_gradient(tf, graph, order)

    @tf.custom_gradient
    @without_autograph
    def call(*args: TfTensor) -> TfTensor:
      results = self._computed(tf, args)

      @without_autograph
      def gradient(*cotangents: TfTensor, variables: Any = None) -> list[TfTensor]:
        del variables  # The arguments are tensors, so there are none.
        return self._cotangents(tf, args, results, cotangents, order)

      return tuple(results), gradient

    found = call(*args)
    return list(found)

  def _keep_gradient(self, tf: TensorFlow, graph: TfGraph, order: int) -> None:
    """Puts the gradient function into a graph's library.

    `tf.saved_model.save` looks for custom gradients only in functions that are there when it begins, so the
    gradient of the gradient would be lost otherwise. The price is that the gradient is traced together with the
    function. If it cannot be traced, the function itself can still be called and saved.
    """
    try:
      concrete = self.gradient().concrete(tf, order - 1)
    except Exception:  # Any error of the user's function; it is raised again if the gradient is needed.
      return
    concrete.add_to_graph(graph)

  def _cotangents(
    self,
    tf: TensorFlow,
    args: Sequence[TfTensor],
    results: Sequence[TfTensor],
    cotangents: Sequence[TfTensor],
    order: int,
  ) -> list[TfTensor]:
    """Returns a cotangent for each argument, and None for arguments without derivative such as integers."""
    with tf.name_scope("jax2tf_vjp"):
      given = [_cotangent(tf, cotangents[i], results[i]) for i in self.traced.differentiable_outputs]
      operands = [*args, *given]
      if in_save_context():
        found = self._saved_cotangents(tf, operands, order)
      else:
        found = self.gradient().call(tf, operands, max(order - 1, 1))
    by_position = dict(zip(self.traced.differentiable_inputs, found, strict=True))
    return [by_position.get(i) for i in range(len(args))]

  def _saved_cotangents(self, tf: TensorFlow, operands: Sequence[TfTensor], order: int) -> Sequence[TfTensor]:
    try:
      gradient = self.gradient()
      if order > 1:
        found: Sequence[TfTensor] = gradient.concrete(tf, order - 1)(*operands)
      else:
        found = gradient.nodes(tf, operands, 0, no_gradient=_NO_MORE_GRADIENTS)
    except Exception as error:  # Any error of the user's function.
      if self.depth == 0:
        raise
      # Not every function has derivatives of a higher order, and few callers need them, so saving must not fail.
      found = _failing(tf, [operands[i] for i in self.traced.differentiable_inputs], error)
    return found


def _cotangent(tf: TensorFlow, cotangent: TfTensor, result: TfTensor) -> TfTensor:
  """Returns a cotangent as a tensor: zeros if the result has no influence, and dense if it came as slices."""
  return tf.zeros_like(result) if cotangent is None else tf.convert_to_tensor(cotangent)


def _failing(tf: TensorFlow, tensors: Sequence[TfTensor], error: Exception) -> list[TfTensor]:
  """Returns nodes that raise when they run, shaped like `tensors`; NaN if XLA, which drops assertions, runs them."""
  text = f"JAX has no further derivative of this function: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
  with tf.control_dependencies([tf.debugging.Assert(tf.zeros([], tf.bool), [text])]):
    return [tf.fill(tf.shape(tensor), tf.cast(float("nan"), tensor.dtype)) for tensor in tensors]
