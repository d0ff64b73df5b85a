"""The current values of TensorFlow's variables, in compiled code too."""

import contextlib
import dataclasses
import functools
import threading
from collections.abc import Callable, Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from graftax.convert._tensorflow import TensorFlow, import_tensorflow
from graftax.convert.errors import ConversionError
from graftax.convert.jax2tf.live.dtypes import jax_dtype
from graftax.convert.live.variables import LiveVariable
from graftax.ops_jax import Array

__all__ = ["CapturedVariables", "VariableReads", "variable_reads"]


@dataclasses.dataclass(frozen=True, eq=False)
class VariableReads:
  """Reads the variables of one converted function.

  Attributes:
    function: the name of the function, for messages.
    variables: the variables.
    specs: shape and dtype of each as JAX has them, when the function was converted.
  """

  function: str
  variables: tuple[LiveVariable, ...]
  specs: tuple[jax.ShapeDtypeStruct, ...]

  def values(self) -> tuple[Array, ...]:
    """Returns the values for the code that is being traced.

    Compiled code reads the variables whenever it runs, all of them in one call of the host. While `jax2tf.convert`
    traces, the values are arguments of the traced function.
    """
    if not self.variables:
      return ()
    captured = CapturedVariables.current()
    if captured is not None:
      return tuple(map(captured.value, self.variables, self.specs))
    from graftax.convert.jax2tf.tf_calls.host_reads import read_on_host  # imports MLIR, which takes long

    return read_on_host(self)

  @functools.cached_property
  def read(self) -> Callable[[], tuple[np.ndarray, ...]]:
    """The function that reads the values. There is one object, because JAX compiles each callback anew."""
    tf = import_tensorflow("call_tf")

    def read_tensorflow_variables() -> tuple[np.ndarray, ...]:
      with tf.init_scope():
        return tuple(self._value(tf, *pair) for pair in zip(self.variables, self.specs, strict=True))

    return read_tensorflow_variables

  def _value(self, tf: TensorFlow, variable: LiveVariable, spec: jax.ShapeDtypeStruct) -> np.ndarray:
    tensor = variable.tensor(tf)
    # numpy() would copy; NumPy's buffers lack the dtypes that NumPy itself lacks.
    has_buffer = np.dtype(tensor.dtype.as_numpy_dtype).kind in "biufc"
    value = np.asarray(memoryview(tensor)) if has_buffer else np.asarray(tensor.numpy())
    if value.shape != spec.shape:
      raise ConversionError(
        f"call_tf: {self.function}: variable {variable.name!r} has shape {list(value.shape)}; it had "
        f"{list(spec.shape)} when the function was compiled. Clear the compiled functions with jax.clear_caches()."
      )
    return value.astype(spec.dtype, copy=False)


class CapturedVariables:
  """The variables that a JAX function reads while `jax2tf.convert` traces it.

  The function is traced twice: first to find its variables, then with their values as arguments. What JAX keeps of
  functions inside of it, such as those of `jax.jit`, must not be used in the second run, so both have a value of their
  own in a context on which JAX's caches depend.
  """

  def __init__(self) -> None:
    self.variables: list[LiveVariable] = []
    self.specs: list[jax.ShapeDtypeStruct] = []
    self._operands: Sequence[Array] | None = None

  @staticmethod
  def current() -> "CapturedVariables | None":
    """Returns the object of the trace that is running in this thread, or None."""
    stack: list[CapturedVariables] = getattr(_thread, "stack", [])
    return stack[-1] if stack else None

  @contextlib.contextmanager
  def collected(self) -> Iterator[None]:
    """Adds the variables that are read inside of this block; their values are then zeros."""
    with self._running():
      yield

  @contextlib.contextmanager
  def bound(self, operands: Sequence[Array]) -> Iterator[None]:
    """Makes the operands, one for each variable, the values inside of this block."""
    self._operands = operands
    try:
      with self._running():
        yield
    finally:
      self._operands = None

  @contextlib.contextmanager
  def _running(self) -> Iterator[None]:
    if not hasattr(_thread, "stack"):
      _thread.stack = []
    _thread.stack.append(self)
    try:
      # Not the object itself: JAX's caches would keep it.
      with _trace_number(object()):
        yield
    finally:
      _thread.stack.pop()

  def value(self, variable: LiveVariable, spec: jax.ShapeDtypeStruct) -> Array:
    """Returns the value of a variable."""
    position = next((i for i, known in enumerate(self.variables) if _are_same(known, variable)), None)
    if self._operands is not None:
      if position is None:
        raise AssertionError(f"internal: variable {variable.name!r} was not read when the function was first traced.")
      return self._operands[position]
    if position is None:
      self.variables.append(variable)
      self.specs.append(spec)
    return jnp.zeros(spec.shape, spec.dtype)


# The traces that are running in a thread, the innermost last.
_thread = threading.local()
_trace_number = jax.make_user_context(None)


def _are_same(a: LiveVariable, b: LiveVariable) -> bool:
  return a.handle is b.handle


def variable_reads(function: str, variables: Sequence[LiveVariable], values: Sequence[Array]) -> VariableReads:
  """Returns the reads of variables whose current values have the shapes of `values`."""
  specs = [jax.ShapeDtypeStruct(value.shape, jax_dtype(v.dtype)) for v, value in zip(variables, values, strict=True)]
  return VariableReads(function, tuple(variables), tuple(specs))
