"""Checks of one op against its lowering: value, dtype, shape, `jit`, `vmap` and derivatives."""

import dataclasses
import functools
import operator
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from graftax.graphdef_ir import GraftaxError
from graftax.ops_jax import Lowering
from graftax.testing._tensorflow import import_tensorflow
from graftax.testing.raw_ops.batching import check_vmap
from graftax.testing.raw_ops.compare import Tolerance, compare
from graftax.testing.raw_ops.derivatives import check_grad
from graftax.testing.raw_ops.oracle import raw_op, to_numpy
from graftax.testing.raw_ops.symbolic import is_shape, run_exported
from graftax.testing.raw_ops.without_x64 import check_without_x64

__all__ = ["check_raw_op", "check_raw_op_rejects"]

# Ops that a check has run eagerly, with the lowering if it is not the registered one. Eagerly each JAX operation is
# compiled for itself, which took half the time of all tests of ops, and an op that differs from its compiled program
# does so in its first case as well.
_ran_eagerly: set[tuple[str, Callable[..., Any] | None]] = set()


def check_raw_op(
  op: str,
  inputs: Mapping[str, Any] | Sequence[Any],
  attrs: Mapping[str, Any] | None = None,
  *,
  static: Collection[str] = (),
  grad: bool | Collection[str] = False,
  grad_order: int = 1,
  forward: bool = True,
  vmap: bool | Collection[str] = True,
  jit: bool = True,
  known: bool = True,
  without_x64: bool | Tolerance = True,
  symbolic: Mapping[str, str | Sequence[str]] | None = None,
  tolerance: Tolerance | None = None,
  grad_tolerance: Tolerance | None = None,
  lowering: Lowering | None = None,
) -> None:
  """Compares an op's lowering with `tf.raw_ops`, in every way in which a converted model can use it.

  Every output's value, dtype and shape is compared: eagerly, from known (numpy) inputs, under `jit`, with 64-bit types
  switched off, and, if asked for, exported with symbolic dimensions. Gradients are compared with `tf.GradientTape`,
  `vmap` with a loop. Only the first case of an op in a process runs eagerly; in the others, `jit` compiles what the
  lowering makes of known inputs.

  Args:
    op: TensorFlow's op name.
    inputs: the op's inputs by argument name, or in order; numpy arrays (or what `np.asarray` takes), a list of them
      for a list-valued argument. Give dtypes: a Python float is float64.
    attrs: attributes, as `tf.raw_ops` takes them; numpy dtypes are fine. Type attributes are inferred.
    static: arguments to pass as known values, besides those that the lowering marks `Static`.
    grad: arguments to differentiate with respect to; True for every floating-point one that is not static. If
      TensorFlow has no gradient, zero is expected.
    grad_order: 2 compares second derivatives too.
    forward: whether `jvp` must agree with `vjp`; False for lowerings that use `custom_vjp`.
    vmap: False skips it; a collection of argument names batches only these, all at once. If True, all inputs are
      batched, jointly and one by one.
    jit: whether to run under `jit`.
    known: whether to run with all inputs known.
    without_x64: whether to run with 64-bit types switched off; a tolerance replaces that of the narrow types.
      Inputs or outputs that 32 bits cannot hold are compared by shape and dtype.
    symbolic: integer arguments to export with symbolic dimensions as their known values, and other arguments to export
      with a symbolic shape: `{"shape": "a, 3", "tensor": "3*a"}`; a list for a list-valued argument. The other inputs
      stay traced, unless they are static.
    tolerance: `(rtol, atol)` instead of `tolerance(dtype, op)`.
    grad_tolerance: the same for derivatives; ten times `tolerance` by default.
    lowering: a lowering to check instead of the registered one.

  Raises:
    AssertionError: a difference; the message says in which mode and at which output.
  """
  with jax.enable_x64(True), warnings.catch_warnings():
    warnings.simplefilter("error")
    case = raw_op(op, inputs, attrs, static=static, lowering=lowering)
    if symbolic:
      # What has symbolic dimensions as its value is known.
      known_values = [is_shape(x) and name in symbolic for name, x in zip(case.input_names, case.inputs, strict=True)]
      case = dataclasses.replace(case, static=tuple(map(operator.or_, case.static, known_values)))
    expected = [to_numpy(t) for t in case.oracle(case.inputs)]
    compare_outputs = functools.partial(compare, op, tolerance)
    arrays = [jnp.asarray(x) if x.dtype != object else x for x in case.dynamic_inputs]
    has_strings = any(x.dtype == object for x in [*case.dynamic_inputs, *expected])
    jit = jit and not has_strings
    key = op, None if lowering is None else lowering.function
    if not jit or key not in _ran_eagerly:
      _ran_eagerly.add(key)
      compare_outputs("concrete inputs", case.run(*arrays), expected)
      if known:
        compare_outputs("known inputs", case.run(*case.dynamic_inputs), expected)
    # In one program, because compiling is most of the time that a check takes.
    both = jax.jit(lambda *xs: (case.run(*xs), case.run(*case.dynamic_inputs) if known else ()))
    if jit:
      traced, from_known = both(*arrays)
      compare_outputs("jit", traced, expected)
      if known:
        compare_outputs("known inputs under jit", from_known, expected)
      if without_x64:
        check_without_x64(case, expected, tolerance if isinstance(without_x64, bool) else without_x64)
    if symbolic:
      compare_outputs("symbolic dimensions", run_exported(case, symbolic, expected), expected)
    if vmap and arrays and not has_strings:
      run = (lambda *xs: both(*xs)[0]) if jit else case.run
      check_vmap(case, run, vmap, compare_outputs)
    if grad:
      check_grad(case, grad, grad_order, forward, grad_tolerance or tolerance)


def check_raw_op_rejects(
  op: str, inputs: Mapping[str, Any] | Sequence[Any], attrs: Mapping[str, Any] | None = None, *, match: str = ""
) -> None:
  """Checks that TensorFlow and our lowering both raise for the inputs, ours a `GraftaxError`.

  Args:
    op: TensorFlow's op name.
    inputs: as for `check_raw_op`.
    attrs: as for `check_raw_op`.
    match: text that our message must contain.

  Raises:
    AssertionError: one of the two accepted the inputs, or our message lacks `match`.
  """
  tf = import_tensorflow()
  with jax.enable_x64(True):
    case = raw_op(op, inputs, attrs, infer_shapes=False)
    try:
      case.oracle(case.inputs)
    except (tf.errors.OpError, ValueError, TypeError):
      pass
    else:
      raise AssertionError(f"{op}: TensorFlow accepts these inputs")
    try:
      outputs = case.run(*[jnp.asarray(x) if x.dtype != object else x for x in case.dynamic_inputs])
    except GraftaxError as e:
      if match not in str(e):
        raise AssertionError(f"{op}: the message {str(e)!r} does not contain {match!r}") from e
    else:
      raise AssertionError(f"{op}: the lowering accepts inputs that TensorFlow rejects, and returns {outputs!r}")
