"""The calls that are looked for, and what an equation says about their arguments.

Each is an expression of `_0`, `_1` and so on. `_k0` is an open number. Whether an expression is the program is decided
by its own jaxpr, so an entry that fits no program does no harm.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping

from graftax.convert.source_code.program import Block, Equation, Value
from graftax.convert.source_code.spelling.registry import proposals
from graftax.convert.source_code.spelling.texts import dtype_text, shape_text

__all__ = ["IDIOMS", "Candidate", "Idiom", "default_blocks"]


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
  """A call for an equation.

  Attributes:
    text: the expression.
    operands: arrays with the shapes and dtypes of its operands.
    scope: if given, the parts become a function of this name, and are not replaced by the call.
  """

  text: str
  operands: tuple[Value, ...]
  scope: str = ""


Producers = Mapping[Value, Equation]
Propose = Callable[[Equation, Producers], Iterator[Candidate]]


@dataclasses.dataclass(frozen=True, slots=True)
class Idiom:
  """Calls for equations.

  Attributes:
    name: of the function that is called.
    roots: the operations whose results may be the call's.
    propose: yields calls for an equation.
  """

  name: str
  roots: frozenset[str]
  propose: Propose


def _like(value: Value) -> Value:
  return Value(value.shape, value.dtype)


def _unary(*texts: str) -> Propose:
  """Returns proposals of functions whose operand is like their result."""

  def propose(equation: Equation, _: Producers) -> Iterator[Candidate]:
    out = equation.outputs[0]
    if "float" in str(out.dtype):
      for text in texts:
        yield Candidate(text, (_like(out),))

  return propose


def _along(*texts: str) -> Propose:
  """Returns proposals of functions along one axis of an operand that is like their result."""

  def propose(equation: Equation, _: Producers) -> Iterator[Candidate]:
    out = equation.outputs[0]
    for axis in [-1, *range(len(out.shape) - 1)] if out.shape else []:
      for text in texts:
        yield Candidate(text.format(axis=f"axis={axis}"), (_like(out),))

  return propose


def _upstream(equation: Equation, producers: Producers, ops: tuple[str, ...], limit: int = 12) -> Iterator[Equation]:
  """Yields operations that an equation depends on, nearest first."""
  waiting, seen = [equation], {id(equation)}
  while waiting and limit:
    current = waiting.pop(0)
    limit -= 1
    if current.op in ops:
      yield current
    for operand in current.inputs:
      producer = producers.get(operand) if isinstance(operand, Value) else None
      if producer is not None and id(producer) not in seen:
        seen.add(id(producer))
        waiting.append(producer)


def _reducing(*texts: str) -> Propose:
  """Returns proposals of functions that reduce axes, with and without keeping these."""

  def propose(equation: Equation, producers: Producers) -> Iterator[Candidate]:
    for reduction in _upstream(equation, producers, ("reduce_sum", "reduce_max")):
      operand = reduction.inputs[0]
      axes = tuple(int(axis) for axis in reduction.settings["axes"])
      if not isinstance(operand, Value) or not axes:
        continue
      rank = len(operand.shape)
      axis = str(axes[0] - rank if axes[0] == rank - 1 and rank > 1 else axes[0]) if len(axes) == 1 else str(axes)
      arguments = f", axis={axis}" if len(axes) < rank else ""
      for text in texts:
        for keepdims in ("", ", keepdims=True"):
          yield Candidate(text.format(arguments=arguments + keepdims), (_like(operand),))

  return propose


def _take(equation: Equation, _: Producers) -> Iterator[Candidate]:
  table, indices = equation.inputs
  if not isinstance(table, Value) or not isinstance(indices, Value):
    return
  ids = Value(indices.shape[:-1], indices.dtype)
  for axis in range(len(table.shape)):
    for mode in ("", ', mode="clip"', ', mode="wrap"'):
      yield Candidate(f"jnp.take(_0, _1, axis={axis}{mode})", (_like(table), ids))
  yield Candidate("_0[_1]", (_like(table), ids))
  for axis in range(len(table.shape)):
    yield Candidate(
      f"jnp.take_along_axis(_0, _1, axis={axis})", (_like(table), Value(equation.outputs[0].shape, ids.dtype))
    )


def _index(equation: Equation, producers: Producers) -> Iterator[Candidate]:
  slices = [equation] if equation.op == "dynamic_slice" else list(_upstream(equation, producers, ("dynamic_slice",), 2))
  for found in slices:
    operand = found.inputs[0]
    sizes = found.settings["slice_sizes"]
    index = next((o for o in found.inputs[1:] if isinstance(o, Value)), None)
    if index is None:
      continue
    for axis, size in enumerate(sizes):
      operands = (Value(operand.shape, operand.dtype), _like(index))
      if size == 1:
        yield Candidate(f"lax.dynamic_index_in_dim(_0, _1, {axis}, keepdims=False)", operands)
        yield Candidate(f"lax.dynamic_index_in_dim(_0, _1, {axis})", operands)
      yield Candidate(f"lax.dynamic_slice_in_dim(_0, _1, {size}, axis={axis})", operands)


def _update(equation: Equation, producers: Producers) -> Iterator[Candidate]:
  operand, update, *starts = equation.inputs
  index = next((o for o in starts if isinstance(o, Value)), None)
  if index is None:
    return
  like = (Value(operand.shape, operand.dtype), Value(update.shape, update.dtype), _like(index))
  for axis in range(len(operand.shape)):
    smaller = Value((*operand.shape[:axis], *operand.shape[axis + 1 :]), operand.dtype)
    yield Candidate(f"lax.dynamic_update_index_in_dim(_0, _1, _2, {axis})", (like[0], smaller, like[2]))
    yield Candidate(f"lax.dynamic_update_slice_in_dim(_0, _1, _2, {axis})", like)


def _max_pool(equation: Equation, _: Producers) -> Iterator[Candidate]:
  """Proposes the reduction that a function with a rule of its own is, on platforms for which it names no other."""
  rule = equation.settings["rule"]
  for block in default_blocks(rule.primal):
    if [e.op for e in block.equations] == ["reduce_window_max"] and block.equations[0].inputs == rule.primal.inputs:
      for text in proposals(block.equations[0]):
        yield Candidate(text, (_like(rule.primal.inputs[0]),))


def default_blocks(block: Block) -> Iterator[Block]:
  """Yields what a block computes on a platform that it does not name."""
  yield block
  match block.equations:
    case [Equation(op="cond", settings={"platforms": platforms}) as choice]:
      platforms = list(platforms)
      if None in platforms and block.results == choice.outputs:
        default = choice.bodies[f"branch{platforms.index(None)}"]
        yield Block(block.inputs, default.equations, default.results)


def _random(equation: Equation, producers: Producers) -> Iterator[Candidate]:
  out = equation.outputs[0]
  for bits in _upstream(equation, producers, ("random_bits",), 16):
    key = bits.inputs[0]
    if not isinstance(key, Value):
      continue
    shape = shape_text(out.shape)
    typed = "" if str(out.dtype) == "float32" else f", {dtype_text(out.dtype)}"
    for name in ("normal", "uniform", "gumbel", "exponential", "bits"):
      yield Candidate(f"jax.random.{name}(_0, {shape}{typed})", (_like(key),))
    yield Candidate(f"jax.random.uniform(_0, {shape}{typed or ', jnp.float32'}, _k0, _k1)", (_like(key),))
    yield Candidate(f"jax.random.bernoulli(_0, _k0, {shape})", (_like(key),))


def _one_hot(equation: Equation, producers: Producers) -> Iterator[Candidate]:
  out = equation.outputs[0]
  for compared in _upstream(equation, producers, ("eq",), 3):
    for operand in compared.inputs:
      source = producers.get(operand) if isinstance(operand, Value) else None
      if source is not None and source.op == "reshape" and out.shape:
        ids = Value(source.inputs[0].shape, source.inputs[0].dtype)
        typed = "" if str(out.dtype) == "float32" else f", dtype={dtype_text(out.dtype)}"
        yield Candidate(f"jax.nn.one_hot(_0, {out.shape[-1]}{typed})", (ids,))


def _layer_norm(equation: Equation, producers: Producers) -> Iterator[Candidate]:
  out = equation.outputs[0]
  for reduction in _upstream(equation, producers, ("reduce_sum",), 24):
    if reduction.inputs[0].shape == out.shape and out.shape:
      channels = Value(out.shape[-1:], out.dtype)
      for name in ("layer_norm", "keras_layer_norm"):
        yield Candidate(f"{name}(_0, _1, _2, _k0)", (_like(out), channels, _like(channels)), "layer_norm")
      return


def _batch_norm(equation: Equation, _: Producers) -> Iterator[Candidate]:
  out = equation.outputs[0]
  if len(out.shape) > 1:
    channels = tuple(Value(out.shape[-1:], out.dtype) for _ in range(4))
    yield Candidate("batch_norm(_0, _1, _2, _3, _4, _k0)", (_like(out), *channels), "batch_norm")
    yield Candidate("batch_norm_without_scale(_0, _1, _2, _3, _k0)", (_like(out), *channels[:3]), "batch_norm")


def _set(*ops: str) -> frozenset[str]:
  return frozenset(ops)


# Calls with more parts come first.
IDIOMS: tuple[Idiom, ...] = (
  Idiom("layer_norm", _set("add"), _layer_norm),
  Idiom("batch_norm", _set("add"), _batch_norm),
  Idiom("softmax", _set("div"), _along("jax.nn.softmax(_0, {axis})")),
  Idiom("log_softmax", _set("sub"), _along("jax.nn.log_softmax(_0, {axis})")),
  Idiom("logsumexp", _set("add", "select_n", "reshape"), _reducing("jax.nn.logsumexp(_0{arguments})")),
  Idiom("var", _set("div", "select_n"), _reducing("jnp.var(_0{arguments})")),
  Idiom("mean", _set("div"), _reducing("jnp.mean(_0{arguments})")),
  Idiom("gelu", _set("mul", "div"), _unary("jax.nn.gelu(_0)", "jax.nn.gelu(_0, approximate=False)")),
  Idiom(
    "activation",
    _set("mul", "div", "max", "select_n", "min", "add", "neg", "custom_jvp", "custom_vjp"),
    _unary(
      *(
        "jax.nn.log_sigmoid(_0)",
        "jax.nn.relu(_0)",
        "jax.nn.relu6(_0)",
        "jax.nn.silu(_0)",
        "jax.nn.softplus(_0)",
        "jax.nn.elu(_0)",
      ),
      *("jax.nn.selu(_0)", "jax.nn.leaky_relu(_0, _k0)", "jax.nn.hard_swish(_0)", "jax.nn.hard_sigmoid(_0)"),
      *("jax.nn.mish(_0)", "jax.nn.soft_sign(_0)", "jax.nn.celu(_0)"),
    ),
  ),
  Idiom("max_pool", _set("custom_jvp"), _max_pool),
  Idiom("random", _set("add", "mul", "max", "lt", "neg", "bitcast_convert_type"), _random),
  Idiom("one_hot", _set("convert_element_type"), _one_hot),
  Idiom("take", _set("gather"), _take),
  Idiom("index", _set("reshape", "dynamic_slice"), _index),
  Idiom("update", _set("dynamic_update_slice"), _update),
)
