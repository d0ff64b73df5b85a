"""`call_tf`: TensorFlow functions in JAX, under any transformation."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from graftax.convert._tensorflow import without_autograph
from graftax.convert.annotated import AnnotatedFunction
from graftax.convert.errors import ConversionError
from graftax.convert.jax2tf.tf_calls.calls import Calls
from graftax.convert.jax2tf.tf_calls.declared_results import DeclaredResults, UnspecifiedOutputShapeDtype
from graftax.convert.pytrees import PyTree
from graftax.convert.sources.programs import is_jax_function
from graftax.ops_jax import Value

__all__ = ["FunctionOfVariables", "call_tf"]

_UNSPECIFIED = UnspecifiedOutputShapeDtype()


def call_tf(
  callable_tf: Callable[..., Any],
  has_side_effects: bool = True,
  ordered: bool = False,
  output_shape_dtype: PyTree = _UNSPECIFIED,
  call_tf_graph: bool = False,
  *,
  variables: str | None = None,
) -> Callable[..., Any]:
  """Returns a TensorFlow function as a function of JAX arrays.

  If it is called with arrays outside of JAX's transformations, TensorFlow runs it op by op. On CPU, JAX's arrays and
  results are not copied. Inside of `jit`, `grad`, `vmap`, `scan` and all other transformations, it is converted to JAX
  operations, as by `graftax.convert.convert`, so all of them work, and custom gradients of TensorFlow are used. Like
  `tf.function`, it is traced once for each combination of structure, shapes and dtypes of its arguments. Ops without a
  lowering are compiled by TensorFlow, each for itself, as with the option `fallback="tensorflow"` of `ConvertOptions`.

  A variable that it captures is read whenever the function runs, in compiled code too. Compiled code does so by a call
  of the host, which takes some tenths of a millisecond and copies the values. `jax.export` cannot write such a call, so
  it raises an error that shows how to pass variables as arguments. Inside of `jax2tf.convert` the variable becomes a
  captured variable of the result. Static lookup tables become constants, and tables that can change are refused.

  Args:
    callable_tf: a TensorFlow function of pytrees of tensors: any Python function of tensors, a `tf.function`, a
      function of a loaded SavedModel, a Keras model. It may return variables and numbers, too.
    has_side_effects: accepted for compatibility. Side effects are found by analysis, so a function without any can
      always be moved, shared or removed by XLA. Printing and assertions happen in eager calls only.
    ordered: accepted for compatibility; values of variables are passed on in the order of TensorFlow.
    output_shape_dtype: a pytree of objects with `shape` and `dtype`, of the structure of the result. Results are
      compared with it. It is never needed, as shapes are those of the converted function, symbolic ones too.
    call_tf_graph: accepted for compatibility. The function is converted in any case, so that `jax2tf.convert` of it
      needs no function of TensorFlow.
    variables: None reads captured variables as above, and eager calls can write them. "explicit" returns a
      `FunctionOfVariables`, which takes their values as its first argument and returns the new ones.

  Returns:
    A function of pytrees of arrays, positional and by keyword, that returns arrays in the structure of the TensorFlow
    function's result. 64-bit results are narrowed if `jax_enable_x64` is off. Inside of a transformation, a result
    whose size depends on data is a `BoundedArray`.

  Raises:
    ConversionError: `callable_tf` cannot be called or is a JAX function, or `variables` is something else. From calls:
      a result is not an array. From `jax.export`: the function reads variables.
    InputError: an argument or `output_shape_dtype` does not fit.
    VariableWriteError: from calls inside of a transformation: the function writes variables.
    MissingInputError: from calls inside of a transformation: the function draws random numbers.
    UnsupportedOpError: from calls inside of a transformation: ops cannot be converted; the message lists all of them.
    StaticInputError: from calls inside of a transformation: a size depends on data and has no bound.

  Differs from TF: stateful random ops draw TensorFlow's numbers in eager calls only. Inside of transformations they
    raise an error, because compiled code would repeat the same numbers, or draw others in the backward pass than in the
    forward pass. With `variables="explicit"`, a PRNG key is one of the variables, and JAX's numbers are drawn.

  Example:
    >>> import numpy as np
    >>> from graftax.convert import jax2tf
    >>> def scaled(x, *, scale):
    ...   return {"scaled": x * scale}
    >>> jax2tf.call_tf(scaled)  # doctest: +ELLIPSIS
    <function scaled at ...>
  """
  if not callable(callable_tf):
    raise ConversionError(f"call_tf: got a {type(callable_tf).__name__}, which cannot be called; expected a function.")
  if isinstance(callable_tf, AnnotatedFunction) or is_jax_function(callable_tf):
    raise ConversionError(
      f"call_tf: got {callable_tf!r}, which is a JAX function already; call it directly. call_tf expects a function of "
      f"tensors, such as tf.sin, a tf.function or a Keras model."
    )
  if variables not in (None, "explicit"):
    raise ConversionError(f"call_tf: variables={variables!r}; expected None or 'explicit'.")
  calls = Calls(callable_tf, DeclaredResults.of(output_shape_dtype))
  if variables == "explicit":
    return FunctionOfVariables(calls, getattr(callable_tf, "__name__", type(callable_tf).__name__))

  @without_autograph
  @functools.wraps(callable_tf, updated=())
  def call(*args: PyTree, **kwargs: PyTree) -> PyTree:
    return calls.call(args, kwargs)

  return call


class FunctionOfVariables:
  """A TensorFlow function that takes the values of its variables and returns the new ones; see `call_tf`.

  It never reads or writes TensorFlow's variables itself.
  """

  def __init__(self, calls: Calls, name: str):
    self._calls = calls
    self.__name__ = name

  @without_autograph
  def __call__(
    self, variables: Mapping[str, Value], /, *args: PyTree, **kwargs: PyTree
  ) -> tuple[PyTree, dict[str, Value]]:
    """Returns `(result, new_variables)`.

    Args:
      variables: values by name, such as those of `variables`. For a function that draws random numbers, "rng" is a
        PRNG key; the new variables hold the next one.
      *args: pytrees of arrays.
      **kwargs: pytrees of arrays.

    Raises:
      ParameterError: the names are not those of the function's variables.
      MissingInputError: the function draws random numbers, but `variables` has no "rng".
    """
    return self._calls.call_explicitly(variables, args, kwargs)

  def variables(self, *args: PyTree, **kwargs: PyTree) -> dict[str, Value]:
    """Returns the current values of the variables that a call with these arguments uses, by their names.

    If the function draws random numbers with stateful ops, "rng" is a new PRNG key, which `tf.random.set_seed` decides.

    Args:
      *args: the arguments of a call, which decide the trace of the function that is meant. Arrays count by shape and
        dtype.
      **kwargs: arguments by keyword, likewise.
    """
    return self._calls.variables(args, kwargs)

  def __repr__(self) -> str:
    return f"<FunctionOfVariables {self.__name__}>"
