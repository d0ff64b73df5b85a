"""Spellings of reductions, running reductions, sorting and windows."""

from collections.abc import Iterator

from graftax.convert.source_code.spelling.registry import Call, spelled
from graftax.convert.source_code.spelling.texts import dtype_text, number_text, text

__all__: list[str] = []

_REDUCTIONS = {
  "reduce_sum": "sum",
  "reduce_max": "max",
  "reduce_min": "min",
  "reduce_prod": "prod",
  "reduce_and": "all",
  "reduce_or": "any",
}


@spelled(*_REDUCTIONS)
def reduction(e: Call) -> Iterator[str]:
  axes, rank = e.ints("axes"), len(e.in_shape())
  keepdims = ", keepdims=True" if e.settings.get("keepdims") else ""
  axis = f", axis={_axis_text(axes, rank)}"
  name = _REDUCTIONS[e.equation.op]
  if len(axes) == rank:
    yield f"jnp.{name}(_0{keepdims})"
  yield f"jnp.{name}(_0{axis}{keepdims})"
  yield f"jnp.{name}(_0{axis}, dtype={dtype_text(e.dtype)}{keepdims})"
  plain = f"lax.{e.equation.op}(_0, {axes})"
  yield f"lax.expand_dims({plain}, {axes})" if keepdims else plain


def _axis_text(axes: tuple[int, ...], rank: int) -> str:
  if len(axes) == 1:
    return str(axes[0] - rank if axes[0] == rank - 1 and rank > 1 else axes[0])
  return str(axes)


@spelled("argmax", "argmin")
def arg_reduction(e: Call) -> Iterator[str]:
  (axis,) = e.ints("axes")
  last = -1 if axis == len(e.in_shape()) - 1 else axis
  yield f"jnp.{e.equation.op}(_0, axis={last})"
  yield f"lax.{e.equation.op}(_0, {axis}, {dtype_text(e.dtype)})"


@spelled("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
def running(e: Call) -> Iterator[str]:
  axis = int(e.settings["axis"])
  if not e.settings.get("reverse"):
    yield f"jnp.{e.equation.op}(_0, axis={axis})"
    yield f"lax.{e.equation.op}(_0, {axis})"
  yield f"lax.{e.equation.op}(_0, {axis}, reverse=True)"


@spelled("sort")
def sort(e: Call) -> Iterator[str]:
  axis = int(e.settings["dimension"])
  if len(e.names) == 1:
    yield f"jnp.sort(_0, axis={axis})"
  rest = f"dimension={axis}, is_stable={text(e.settings['is_stable'])}, num_keys={text(e.settings['num_keys'])}"
  operands = "_0" if len(e.names) == 1 else f"({e.args})"
  yield f"lax.sort({operands}, {rest})"


@spelled("call_hi_primitive")
def search_sorted(e: Call) -> Iterator[str]:
  """Proposes `jnp.searchsorted`, which is one primitive since JAX 0.12."""
  for side in ("", ', side="right"'):
    for method in ("", *(f', method="{name}"' for name in ("scan_unrolled", "sort", "compare_all"))):
      yield f"jnp.searchsorted(_0, _1{side}{method})"


@spelled("top_k")
def top_k(e: Call) -> Iterator[str]:
  yield f"lax.top_k(_0, {text(e.settings['k'])})"
  axis = e.settings.get("axis")
  yield f"lax.top_k(_0, {text(e.settings['k'])}, axis={text(axis)})"


_WINDOWS = {
  "reduce_window_max": (
    "lax.max",
    lambda dtype: "-jnp.inf" if _is_float(dtype) else f"jnp.iinfo({dtype_text(dtype)}).min",
  ),
  "reduce_window_min": (
    "lax.min",
    lambda dtype: "jnp.inf" if _is_float(dtype) else f"jnp.iinfo({dtype_text(dtype)}).max",
  ),
  "reduce_window_sum": ("lax.add", lambda dtype: number_text(0, dtype)),
}


def _is_float(dtype: object) -> bool:
  return "float" in str(dtype)


@spelled(*_WINDOWS)
def reduce_window(e: Call) -> Iterator[str]:
  return _windows(e, e.equation.op, "_0")


def _windows(e: Call, op: str, operand: str) -> Iterator[str]:
  reducer, initial = _WINDOWS[op]
  start = initial(e.dtype)
  sizes, strides = text(e.settings["window_dimensions"]), text(e.settings["window_strides"])
  padding = tuple(tuple(int(i) for i in p) for p in e.settings["padding"])
  rest = ""
  for name in ("base_dilation", "window_dilation"):
    if any(d != 1 for d in e.settings.get(name) or ()):
      rest += f", {name}={text(e.settings[name])}"
  padded = ['"VALID"'] if all(p == (0, 0) for p in padding) else ['"SAME"', text(padding)]
  for typed in (start, f"jnp.array({start}, {dtype_text(e.dtype)})"):
    for pads in padded:
      yield f"lax.reduce_window({operand}, {typed}, {reducer}, {sizes}, {strides}, {pads}{rest})"


_SELECTED = {"ge": "reduce_window_max", "le": "reduce_window_min"}


@spelled("select_and_scatter_add")
def select_and_scatter_add(e: Call) -> Iterator[str]:
  """Proposes the transposed derivative of a pooling; integers have none, and bind the primitive."""
  for pool in _pools(e):
    yield f"jax.vjp(lambda x: {pool}, _1)[1](_0)[0]"


@spelled("select_and_gather_add")
def select_and_gather_add(e: Call) -> Iterator[str]:
  """Proposes the derivative of a pooling; integers have none, and bind the primitive."""
  for pool in _pools(e):
    yield f"jax.jvp(lambda x: {pool}, (_1,), (_0,))[1]"


def _pools(e: Call) -> Iterator[str]:
  """Yields poolings of `x` whose derivatives select as an equation does."""
  op = _SELECTED.get(getattr(e.settings["select_prim"], "name", ""))
  return _windows(e, op, "x") if op else iter(())
