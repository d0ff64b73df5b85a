"""`with_compute_dtype`: a function that computes its matrix products and convolutions in a narrow dtype."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, Var
from jax.typing import DTypeLike

from graftax.xla_call_module import errors, jax_versions
from graftax.xla_call_module.jax_versions import Operand
from graftax.xla_call_module.jaxprs import as_closed, bound, has_primitives

__all__ = ["with_compute_dtype"]

P = ParamSpec("P")
T = TypeVar("T")

_NARROW = (jnp.dtype("bfloat16"), jnp.dtype("float16"))
_WIDE = jnp.dtype("float32")
_PRODUCTS = ("dot_general", "conv_general_dilated")
# Primitives whose results are elements of their operands. They run on narrow operands as they are; others compute in
# float32 what they return in the narrow dtype.
_EXACT = frozenset({
  "broadcast_in_dim", "concatenate", "copy", "dynamic_slice", "dynamic_update_slice", "expand_dims", "gather", "max",
  "min", "neg", "pad", "reduce_max", "reduce_min", "reduce_window_max", "reduce_window_min", "reshape", "rev",
  "select_n", "slice", "split", "squeeze", "stop_gradient", "transpose",
})  # fmt: skip


def with_compute_dtype(function: Callable[P, T], dtype: DTypeLike = jnp.bfloat16) -> Callable[P, T]:
  """Returns the function with matrix products and convolutions of float32 computed in a narrow dtype.

  A converted program computes in the dtypes of the TensorFlow graph, so parameters that were loaded in bfloat16 are
  widened before they are used. Here they stay as they are. An operation whose operands are all narrow has a narrow
  result, unless a number in it, such as the -1e9 of a mask, would be infinite or zero in the narrow dtype. Sums,
  exponentials, and whatever else rounds are computed in float32 and rounded once. Loops carry the dtypes of their
  initial values. Results have the dtypes that they had. Integers, float64 and complex numbers do not change.

  The function is traced, as by `jax.jit`. It can be differentiated; derivatives of products are computed in the same
  dtypes. With `float16` they can underflow, so scale the loss. These stay in float32: products in the rules of custom
  derivatives, in `shard_map`, in `jit` with shardings, in loops that `vmap` gave several conditions, and `ragged_dot`.

  Args:
    function: a function of pytrees of arrays, such as a converted or lifted one.
    dtype: bfloat16 or float16.

  Raises:
    ArgumentError: another dtype.

  Example:
    >>> import jax
    >>> import jax.numpy as jnp
    >>> from graftax.xla_call_module import with_compute_dtype
    >>> def dense(w, x):
    ...   return jnp.tanh(x @ w)
    >>> narrow = with_compute_dtype(dense)
    >>> narrow(jnp.ones((2, 3)), jnp.ones((1, 2))).dtype
    dtype('float32')
    >>> "bf16[1,3] = dot_general" in str(jax.make_jaxpr(narrow)(jnp.ones((2, 3)), jnp.ones((1, 2))))
    True
  """
  narrow = jnp.dtype(dtype)
  if narrow not in _NARROW:
    raise errors.ArgumentError(f"dtype={narrow}; expected one of {', '.join(map(str, _NARROW))}.")

  @functools.wraps(function)
  def computed(*args: P.args, **kwargs: P.kwargs) -> T:
    closed, shapes = jax.make_jaxpr(lambda args, kwargs: function(*args, **kwargs), return_shape=True)(args, kwargs)
    results = _Narrowed(narrow).run(closed, jax.tree.leaves((args, kwargs)))
    found: T = jax.tree.unflatten(jax.tree.structure(shapes), _with_dtypes_of(closed, results))
    return found

  return computed


def _with_dtypes_of(closed: ClosedJaxpr, results: Sequence[Operand]) -> list[Operand]:
  arrays = [x if isinstance(x, Array) else jnp.asarray(x) for x in results]
  return [_cast(x, aval.dtype) for x, aval in zip(arrays, closed.out_avals, strict=True)]


def _cast(x: Operand, dtype: DTypeLike) -> Operand:
  return x if jnp.result_type(x) == dtype else lax.convert_element_type(x, dtype)


class _Narrowed:
  """Runs jaxprs; a value that is float32 in the jaxpr may be held in the narrow dtype."""

  def __init__(self, dtype: np.dtype):
    self._dtype = dtype

  def run(self, closed: ClosedJaxpr, operands: Sequence[Operand]) -> list[Operand]:
    """Returns the results, each in its dtype or in the narrow one."""
    jaxpr = closed.jaxpr
    values: dict[Var, Operand] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    values |= dict(zip(jaxpr.invars, operands, strict=True))

    def read(atom: Var | Literal) -> Operand:
      return atom.val if isinstance(atom, Literal) else values[atom]

    # Numbers such as epsilons, and arrays of them, do not decide on a dtype, unless the narrow one cannot hold them.
    numbers = {var for var in jaxpr.constvars if not np.shape(values[var]) and self._holds(values[var])}
    for equation in jaxpr.eqns:
      decides = [
        not self._holds(atom.val) if isinstance(atom, Literal) else atom not in numbers for atom in equation.invars
      ]
      if not any(decides):
        numbers.update(equation.outvars)
      results = self._equation(equation, [read(atom) for atom in equation.invars], decides)
      values.update(zip(equation.outvars, results, strict=True))
    return [read(atom) for atom in jaxpr.outvars]

  def _equation(self, equation: JaxprEqn, operands: list[Operand], decides: Sequence[bool]) -> Sequence[Operand]:
    name = equation.primitive.name
    if name in _PRODUCTS:
      return self._product(equation, operands)
    if name == "convert_element_type" and equation.params["new_dtype"] == _WIDE and self._is_narrow(operands[0]):
      return operands
    rule = _NESTED.get(name)
    if rule is not None:
      return rule(self, equation, operands)
    return self._other(equation, operands, decides)

  def _holds(self, number: Operand) -> bool:
    """Returns whether a number is neither infinite nor zero in the narrow dtype unless it is in its own."""
    if isinstance(number, jax.core.Tracer) or jnp.result_type(number) != _WIDE:
      return True
    wide = np.asarray(number, _WIDE)
    with np.errstate(over="ignore", under="ignore"):
      narrow = wide.astype(self._dtype).astype(_WIDE)
    return bool(((np.isinf(narrow) == np.isinf(wide)) & ((narrow == 0) == (wide == 0))).all())

  def _is_narrow(self, x: Operand) -> bool:
    return bool(jnp.result_type(x) == self._dtype)

  def _product(self, equation: JaxprEqn, operands: list[Operand]) -> Sequence[Operand]:
    (out,) = equation.outvars
    if _dtype_of(out) != _WIDE or any(jnp.result_type(x) not in (_WIDE, self._dtype) for x in operands):
      return bound(equation, _wide(equation, operands))
    # The precision is one of float32. XLA adds up in float32 whatever the dtype of the result is.
    params = equation.params | {"precision": None, "preferred_element_type": self._dtype}
    return bound(equation, [_cast(x, self._dtype) for x in operands], params)

  def _other(
    self, equation: JaxprEqn, operands: list[Operand], decides: Sequence[bool] | None = None
  ) -> Sequence[Operand]:
    """Returns the results of an operation, narrow if all float32 operands are that decide (all without `decides`)."""
    deciding = [True] * len(operands) if decides is None else decides
    kinds = [_dtype_of(atom) == _WIDE for atom in equation.invars]
    floats = [x for x, is_float, counts in zip(operands, kinds, deciding, strict=True) if is_float and counts]
    if not floats or not all(map(self._is_narrow, floats)):
      return bound(equation, _wide(equation, operands))
    if equation.primitive.name in _EXACT:
      return bound(equation, [_cast(x, self._dtype) if f else x for x, f in zip(operands, kinds, strict=True)])
    results = bound(equation, _wide(equation, operands))
    return [_cast(y, self._dtype) if y.dtype == _WIDE else y for y in results]

  def call(self, equation: JaxprEqn, operands: list[Operand]) -> Sequence[Operand]:
    """Runs what a `jit` or `remat` equation calls."""
    params = equation.params
    closed = as_closed(params["jaxpr"])
    if equation.primitive.name in ("jit", "pjit"):
      if not all(_is_unspecified(x) for x in (*params["in_shardings"], *params["out_shardings"])):
        return bound(equation, _wide(equation, operands))
      return jax.jit(lambda *operands: self.run(closed, operands), inline=params["inline"])(*operands)
    kept = jax.checkpoint(
      lambda *operands: self.run(closed, operands), prevent_cse=params["prevent_cse"], policy=params["policy"]
    )
    return kept(*operands)

  def custom_jvp(self, equation: JaxprEqn, operands: list[Operand]) -> Sequence[Operand]:
    """Runs a function with a rule of forward mode. The rule itself is that of the equation."""
    constants, others = _split(equation, operands)

    def original(*others: Array) -> Sequence[Operand]:
      return self._other(equation, [*constants, *others])

    closed = as_closed(equation.params["call_jaxpr"])
    if not _has_products(closed):
      return original(*others)
    function = jax.custom_jvp(lambda *others: self.run(closed, [*constants, *others]))
    function.defjvp(lambda primals, tangents: _jvp_as(function, original, primals, tangents))
    return function(*others)

  def custom_vjp(self, equation: JaxprEqn, operands: list[Operand]) -> Sequence[Operand]:
    """Runs a function with a rule of reverse mode. The rule itself is that of the equation."""
    constants, others = _split(equation, operands)

    def original(*others: Array) -> list[Operand]:
      return list(self._other(equation, [*constants, *others]))

    closed = as_closed(next(equation.params[key] for key in ("call_jaxpr", "fun_jaxpr") if key in equation.params))
    if not _has_products(closed):
      return original(*others)
    dtypes = [x.dtype for x in jax.eval_shape(lambda *xs: self.run(closed, [*constants, *xs]), *others)]

    def forward(*others: Array) -> tuple[list[Array], Operand]:
      return jax.vjp(lambda *xs: [_cast(y, d) for y, d in zip(original(*xs), dtypes, strict=True)], *others)

    function = jax.custom_vjp(lambda *others: self.run(closed, [*constants, *others]))
    function.defvjp(forward, lambda pull, cotangents: pull(cotangents))
    return function(*others)

  def scan(self, equation: JaxprEqn, operands: list[Operand]) -> Sequence[Operand]:
    """Runs a scan. Its carry has the dtypes of the initial values."""
    params = equation.params
    num_consts, num_carry = jax_versions.scan_operand_counts(params)
    consts, carry, rows = operands[:num_consts], operands[num_consts:][:num_carry], operands[num_consts + num_carry :]
    dtypes = [jnp.result_type(x) for x in carry]

    def step(carry: list[Operand], row: list[Operand]) -> tuple[list[Operand], list[Operand]]:
      results = self.run(as_closed(params["jaxpr"]), [*consts, *carry, *row])
      return [_cast(x, d) for x, d in zip(results[:num_carry], dtypes, strict=True)], results[num_carry:]

    options = {key: params[key] for key in ("length", "reverse", "unroll")}
    last, stacked = lax.scan(step, [_cast(x, d) for x, d in zip(carry, dtypes, strict=True)], rows, **options)
    return [*last, *stacked]

  def while_loop(self, equation: JaxprEqn, operands: list[Operand]) -> Sequence[Operand]:
    """Runs a loop. It carries the dtypes of the initial values."""
    params = equation.params
    if params["cond_jaxpr"].out_avals[0].shape:  # conditions of several loops, which only the primitive takes
      return bound(equation, _wide(equation, operands))
    num_cond, num_body = params["cond_nconsts"], params["body_nconsts"]
    of_cond, of_body, carry = operands[:num_cond], operands[num_cond:][:num_body], operands[num_cond + num_body :]
    dtypes = [jnp.result_type(x) for x in carry]

    def body(carry: list[Operand]) -> list[Operand]:
      results = self.run(as_closed(params["body_jaxpr"]), [*of_body, *carry])
      return [_cast(x, d) for x, d in zip(results, dtypes, strict=True)]

    start = [_cast(jnp.asarray(x), d) for x, d in zip(carry, dtypes, strict=True)]
    return lax.while_loop(lambda carry: self.run(as_closed(params["cond_jaxpr"]), [*of_cond, *carry])[0], body, start)

  def cond(self, equation: JaxprEqn, operands: list[Operand]) -> Sequence[Operand]:
    """Runs a branch. A result is narrow if it is narrow in all branches."""
    branches = [as_closed(branch) for branch in equation.params["branches"]]
    index, *others = operands
    found = [jax.eval_shape(lambda *xs, b=branch: self.run(b, xs), *others) for branch in branches]
    dtypes = [
      self._dtype if all(y.dtype == self._dtype for y in ys) else _dtype_of(var)
      for var, ys in zip(equation.outvars, zip(*found, strict=True), strict=True)
    ]

    def run(branch: ClosedJaxpr, *operands: Operand) -> list[Operand]:
      return [_cast(y, d) for y, d in zip(self.run(branch, operands), dtypes, strict=True)]

    return lax.switch(index, [functools.partial(run, branch) for branch in branches], *others)


_NESTED: dict[str, Callable[[_Narrowed, JaxprEqn, list[Operand]], Sequence[Operand]]] = {
  "cond": _Narrowed.cond,
  "custom_jvp_call": _Narrowed.custom_jvp,
  "custom_vjp_call": _Narrowed.custom_vjp,
  "custom_vjp_call_jaxpr": _Narrowed.custom_vjp,
  "checkpoint": _Narrowed.call,
  "jit": _Narrowed.call,
  "pjit": _Narrowed.call,
  "remat2": _Narrowed.call,
  "scan": _Narrowed.scan,
  "while": _Narrowed.while_loop,
}


def _jvp_as(
  function: Callable[..., Any], original: Callable[..., Any], primals: Operand, tangents: Operand
) -> tuple[Operand, Operand]:
  """Returns the value of `function` and the tangents of `original`, in the dtypes of the value."""
  values = function(*primals)
  _, found = jax.jvp(original, primals, tangents)
  return values, [t if t.dtype == jax.dtypes.float0 else _cast(t, y.dtype) for t, y in zip(found, values, strict=True)]


def _split(equation: JaxprEqn, operands: Sequence[Operand]) -> tuple[Sequence[Operand], Sequence[Operand]]:
  """Returns the constants that a function with a rule closed over, which have no derivative there, and its operands."""
  count = equation.params.get("num_consts", 0)
  return operands[:count], operands[count:]


def _dtype_of(atom: Var | Literal) -> Any:
  """Returns the dtype of a variable or literal; tokens and references have none."""
  return getattr(atom.aval, "dtype", None)


def _wide(equation: JaxprEqn, operands: Sequence[Operand]) -> list[Operand]:
  """Returns the operands with those that are held in a narrow dtype as float32."""
  return [_cast(x, _WIDE) if _dtype_of(a) == _WIDE else x for x, a in zip(operands, equation.invars, strict=True)]


def _is_unspecified(sharding: object) -> bool:
  return not isinstance(sharding, jax.sharding.Sharding)


def _has_products(closed: ClosedJaxpr) -> bool:
  return has_primitives(closed.jaxpr, _PRODUCTS)
