"""Spellings of operations that rearrange elements."""

from collections.abc import Iterator

from graftax.convert.source_code.program import Dim, Literal
from graftax.convert.source_code.simplifying import same_shape
from graftax.convert.source_code.spelling.registry import Call, spelled
from graftax.convert.source_code.spelling.texts import array_text, dtype_text, number_text, shape_text, text

__all__: list[str] = []


@spelled("reshape")
def reshape(e: Call) -> Iterator[str]:
  before, after = e.in_shape(), e.shape
  if len(e.equation.inputs) == 1 and "dimensions" not in e.settings:
    yield from _new_axes(before, after)
    if len(before) > len(after):
      removed = _removed_axes(before, after)
      if removed:
        yield f"_0.squeeze({removed[0] if len(removed) == 1 else removed})"
    shared = 0
    while shared < min(len(before), len(after)) and same_shape(before[shared : shared + 1], after[shared : shared + 1]):
      shared += 1
    if len(after) == 1:
      yield "_0.reshape(-1)"
    rest = after[shared:]
    for kept in (shared, shared - 1):
      if kept > 0 and 1 <= len(after) - kept:
        lead = "_0.shape[0]" if kept == 1 else f"*_0.shape[:{kept}]"
        rest = after[kept:]
        sizes = ["-1"] if len(rest) == 1 else [text(size) for size in rest]
        if len(rest) > 1 and all(_is_one(size) for size in rest[:-1]):
          yield f"_0.reshape({', '.join([lead, *sizes[:-1], '-1'])})"
        yield f"_0.reshape({', '.join([lead, *sizes])})"
    if len(after) > 1:
      yield f"_0.reshape({', '.join(['-1', *map(text, after[1:])])})"
    yield f"_0.reshape({', '.join(map(text, after))})" if after else "_0.reshape(())"
  yield f"lax.reshape(_0, {shape_text(after)}{_dimensions(e)})"


def _dimensions(e: Call) -> str:
  found = e.settings.get("dimensions")
  return "" if found is None else f", {text(found)}"


def _new_axes(before: tuple[Dim, ...], after: tuple[Dim, ...]) -> Iterator[str]:
  """Yields the index that adds dimensions of size 1."""
  if len(after) <= len(before):
    return
  items: list[str] = []
  left = list(before)
  for size in after:
    if left and same_shape((left[0],), (size,)) and (not _is_one(size) or len(left) >= len(after) - len(items)):
      items.append(":")
      left.pop(0)
    elif _is_one(size):
      items.append("None")
    else:
      return
  if left or "None" not in items:
    return
  last = max(i for i, item in enumerate(items) if item == "None")
  first = min(i for i, item in enumerate(items) if item == "None")
  if all(item == "None" for item in items[first:]) and first > 1:
    yield f"_0[..., {', '.join(items[first:])}]"
  yield f"_0[{', '.join(items[: last + 1])}]"


def _removed_axes(before: tuple[Dim, ...], after: tuple[Dim, ...]) -> tuple[int, ...]:
  """Returns which dimensions of size 1 a reshape leaves out, or () if it does more."""
  removed: list[int] = []
  left = list(after)
  for d, size in enumerate(before):
    if left and same_shape((left[0],), (size,)) and not (_is_one(size) and len(before) - d > len(left)):
      left.pop(0)
    elif _is_one(size):
      removed.append(d)
    else:
      return ()
  return () if left else tuple(removed)


def _is_one(size: Dim) -> bool:
  return isinstance(size, int) and size == 1


@spelled("broadcast_in_dim")
def broadcast_in_dim(e: Call) -> Iterator[str]:
  dims = e.ints("broadcast_dimensions")
  operand = e.equation.inputs[0]
  shape = shape_text(e.shape)
  if len(e.equation.inputs) == 1:
    if isinstance(operand, Literal) and operand.shape == ():
      if operand.array == 0:
        yield f"jnp.zeros({shape}, {dtype_text(e.dtype)})"
      if operand.array == 1:
        yield f"jnp.ones({shape}, {dtype_text(e.dtype)})"
      yield f"jnp.full({shape}, {number_text(operand.array[()], operand.dtype)}, {dtype_text(e.dtype)})"
      yield f"jnp.full({shape}, {array_text(operand)}, {dtype_text(e.dtype)})"
    if dims == tuple(range(len(e.shape) - len(dims), len(e.shape))):
      yield f"jnp.broadcast_to(_0, {shape})"
  yield f"lax.broadcast_in_dim(_0, {shape}, {dims})"


@spelled("transpose")
def transpose(e: Call) -> Iterator[str]:
  order = e.ints("permutation")
  if order == (1, 0):
    yield "_0.T"
  moved = [i for i, d in enumerate(order) if i != d]
  if len(moved) == 2:
    yield f"jnp.swapaxes(_0, {moved[0]}, {moved[1]})"
  yield f"_0.transpose{order}"
  yield f"lax.transpose(_0, {order})"


@spelled("concatenate")
def concatenate(e: Call) -> Iterator[str]:
  axis = int(e.settings["dimension"])
  last = -1 if axis == len(e.shape) - 1 and axis > 0 else axis
  yield f"jnp.concatenate([{e.args}]{_axis(last)})"
  yield f"lax.concatenate([{e.args}], {axis})"


def _axis(axis: int) -> str:
  return "" if axis == 0 else f", axis={axis}"


@spelled("stack")
def stack(e: Call) -> Iterator[str]:
  yield f"jnp.stack([{e.args}]{_axis(int(e.settings['axis']))})"


@spelled("unstack")
def unstack(e: Call) -> Iterator[str]:
  only = "[0]" if len(e.equation.outputs) == 1 else ""
  yield f"jnp.unstack(_0{_axis(int(e.settings['axis']))}){only}"


@spelled("tile")
def tile(e: Call) -> Iterator[str]:
  yield f"jnp.tile(_0, {text(e.settings['reps'])})"


@spelled("split")
def split(e: Call) -> Iterator[str]:
  axis, sizes = int(e.settings["axis"]), e.settings["sizes"]
  last = -1 if axis == len(e.in_shape()) - 1 else axis
  if all(same_shape((size,), sizes[:1]) for size in sizes):
    yield f"jnp.split(_0, {len(sizes)}{_axis(last)})"
  only = "[0]" if len(sizes) == 1 else ""
  yield f"lax.split(_0, {text(sizes)}{_axis(axis)}){only}"


@spelled("slice")
def static_slice(e: Call) -> Iterator[str]:
  starts, limits = e.settings["start_indices"], e.settings["limit_indices"]
  strides = e.settings.get("strides") or [1] * len(starts)
  squeezed = e.settings.get("squeezed", ())
  items: list[str] = []
  for d, (start, limit, stride) in enumerate(zip(starts, limits, strides, strict=True)):
    if d in squeezed:
      full = e.in_shape()[d]
      items.append("-1" if isinstance(full, int) and full > 8 and start == full - 1 else text(start))
      continue
    first = "" if isinstance(start, int) and start == 0 else text(start)
    last = "" if same_shape((limit,), (e.in_shape()[d],)) else text(limit)
    items.append(f"{first}:{last}" + (f":{stride}" if stride != 1 else ""))
    size = e.in_shape()[d]
    near = isinstance(size, int) and isinstance(limit, int) and 0 < size - limit <= 3 and size - limit < limit
    if last and near:
      # Counted from the end, so that the text is right for other sizes as well.
      items[-1] = f"{first}:{limit - size}" + (f":{stride}" if stride != 1 else "")
  while len(items) > 1 and items[-1] == ":":
    items.pop()
  full_items = ", ".join(items)
  leading = next((i for i, item in enumerate(items) if item != ":"), 0)
  if leading > 1 and len(items) == len(e.in_shape()):
    yield f"_0[..., {', '.join(items[leading:])}]"
  yield f"_0[{full_items}]"
  # With symbolic sizes, JAX indexes by a gather.
  cut = [d for d, item in enumerate(items) if item != ":"]
  if len(cut) == 1:
    (d,) = cut
    if squeezed:
      yield f"lax.index_in_dim(_0, {items[d]}, axis={d}, keepdims=False)"
    yield f"lax.slice_in_dim(_0, {', '.join(part or 'None' for part in items[d].split(':'))}, axis={d})"
  plain = (
    f"lax.slice(_0, {text(starts)}, {text(limits)}{'' if not e.settings.get('strides') else ', ' + text(strides)})"
  )
  if squeezed:
    plain = f"lax.squeeze({plain}, {text(squeezed)})"
  yield plain


@spelled("dynamic_slice")
def dynamic_slice(e: Call) -> Iterator[str]:
  starts = e.names[1:]
  indices = ", ".join(starts) + ("," if len(starts) == 1 else "")
  yield f"lax.dynamic_slice(_0, ({indices}), {text(e.settings['slice_sizes'])})"


@spelled("dynamic_update_slice")
def dynamic_update_slice(e: Call) -> Iterator[str]:
  starts = e.names[2:]
  indices = ", ".join(starts) + ("," if len(starts) == 1 else "")
  yield f"lax.dynamic_update_slice(_0, _1, ({indices}))"


@spelled("pad")
def pad(e: Call) -> Iterator[str]:
  config = [tuple(int(i) for i in c) for c in e.settings["padding_config"]]
  operand = e.equation.inputs[1]
  if all(low >= 0 and high >= 0 and inner == 0 for low, high, inner in config):
    widths = text(tuple((low, high) for low, high, _ in config))
    if isinstance(operand, Literal):
      if operand.array == 0:
        yield f"jnp.pad(_0, {widths})"
      yield f"jnp.pad(_0, {widths}, constant_values={number_text(operand.array[()], operand.dtype)})"
    yield f"jnp.pad(_0, {widths}, constant_values=_1)"
  yield f"lax.pad(_0, _1, {text(config)})"


@spelled("rev")
def rev(e: Call) -> Iterator[str]:
  dims = e.ints("dimensions")
  yield f"jnp.flip(_0, {dims[0] if len(dims) == 1 else dims})"
  yield f"lax.rev(_0, {dims})"


@spelled("iota")
def iota(e: Call) -> Iterator[str]:
  if len(e.shape) == 1 and not e.equation.inputs:
    yield f"jnp.arange({text(e.shape[0])})"
    yield f"jnp.arange({text(e.shape[0])}, dtype={dtype_text(e.dtype)})"
    yield f"lax.iota({dtype_text(e.dtype)}, {text(e.shape[0])})"
  yield f"lax.broadcasted_iota({dtype_text(e.dtype)}, {shape_text(e.shape)}, {text(e.settings['dimension'])})"
