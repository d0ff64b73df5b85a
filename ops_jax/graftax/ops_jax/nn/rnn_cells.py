"""Recurrent cells as single ops: LSTMBlockCell, BlockLSTM, GRUBlockCell."""

from typing import Any

import jax.numpy as jnp
from jax import lax

from graftax.ops_jax._core.derivatives import with_partials
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array

__all__ = ["block_lstm", "block_lstm_v2", "gru_block_cell", "lstm_block_cell"]


def _lstm_step(
  x: Array,
  cs_prev: Array,
  h_prev: Array,
  w: Array,
  peepholes: tuple[Array, Array, Array] | None,
  b: Array,
  gate_order: str,
  forget_bias: float,
  cell_clip: float,
) -> tuple[Array, ...]:
  """Returns gates, states and output of one step: `i, cs, f, o, ci, co, h`, each `[batch, units]`."""
  gates = jnp.split(jnp.concatenate([x, h_prev], axis=-1) @ w + b, 4, axis=-1)
  gate = dict(zip(gate_order, gates, strict=True))
  in_gate, forget_gate, out_gate = gate["i"], gate["f"] + jnp.asarray(forget_bias, x.dtype), gate["o"]
  if peepholes is not None:
    in_gate, forget_gate = in_gate + cs_prev * peepholes[0], forget_gate + cs_prev * peepholes[1]
  i, f, ci = lax.logistic(in_gate), lax.logistic(forget_gate), jnp.tanh(gate["c"])
  cs: Array = ci * i + cs_prev * f
  if cell_clip > 0:
    cs = _clipped(cs, jnp.asarray(cell_clip, cs.dtype))
  if peepholes is not None:
    out_gate = out_gate + cs * peepholes[2]
  o, co = lax.logistic(out_gate), jnp.tanh(cs)
  return i, cs, f, o, ci, co, co * o


@register("LSTMBlockCell", ignores=("T",))
def lstm_block_cell(
  x: Array,
  cs_prev: Array,
  h_prev: Array,
  w: Array,
  wci: Array,
  wcf: Array,
  wco: Array,
  b: Array,
  *,
  forget_bias: float = 1.0,
  cell_clip: float = 3.0,
  use_peephole: bool = False,
) -> tuple[Array, ...]:
  """Computes one step of an LSTM.

  Source op: `tf.raw_ops.LSTMBlockCell`.

  Args:
    x: `[batch, inputs]`, floating point.
    cs_prev: `[batch, units]`, cell state before.
    h_prev: `[batch, units]`, output before.
    w: `[inputs + units, 4 * units]`, weights of input gate, cell input, forget gate and output gate.
    wci: `[units]`, peephole weights of the input gate, used if `use_peephole` is set.
    wcf: likewise of the forget gate.
    wco: likewise of the output gate.
    b: `[4 * units]`.
    forget_bias: added to the forget gate.
    cell_clip: if positive, the cell state is clipped to plus or minus this.
    use_peephole: whether the gates depend on the cell state.

  Returns:
    `i, cs, f, o, ci, co, h`, each `[batch, units]`: input gate, cell state, forget gate, output gate, cell input, cell
    output before the gate, output.
  """
  peepholes = (wci, wcf, wco) if use_peephole else None
  return _lstm_step(jnp.asarray(x), cs_prev, h_prev, w, peepholes, b, "icfo", forget_bias, cell_clip)


# TensorFlow's gradient takes no notice of the clipping.
_clipped = with_partials(lambda cs, limit: jnp.clip(cs, -limit, limit), lambda t, y, cs, limit: t, None)


def _block_lstm(
  seq_len_max: Array,
  x: Any,
  cs_prev: Any,
  h_prev: Any,
  w: Array,
  peepholes: tuple[Array, Array, Array] | None,
  b: Array,
  gate_order: str,
  forget_bias: float,
  cell_clip: float,
) -> tuple[Array, ...]:
  x, cs_prev, h_prev = jnp.asarray(x), jnp.asarray(cs_prev), jnp.asarray(h_prev)

  def step(carry: tuple[Array, Array], item: tuple[Array, Array]) -> Any:
    time, x_now = item
    results = _lstm_step(x_now, *carry, w, peepholes, b, gate_order, forget_bias, cell_clip)
    is_live = time < seq_len_max
    results = tuple(jnp.where(is_live, r, jnp.zeros((), r.dtype)) for r in results)
    return (results[1], results[6]), results

  times = jnp.arange(x.shape[0], dtype=jnp.asarray(seq_len_max).dtype)
  i, cs, f, o, ci, co, h = lax.scan(step, (cs_prev, h_prev), (times, x))[1]
  # TensorFlow's gradient is that of the cell states and the outputs alone.
  i, f, o, ci, co = lax.stop_gradient((i, f, o, ci, co))
  return i, cs, f, o, ci, co, h


@register("BlockLSTM", ignores=("T",))
def block_lstm(
  seq_len_max: Array,
  x: Array,
  cs_prev: Array,
  h_prev: Array,
  w: Array,
  wci: Array,
  wcf: Array,
  wco: Array,
  b: Array,
  *,
  forget_bias: float = 1.0,
  cell_clip: float = 3.0,
  use_peephole: bool = False,
) -> tuple[Array, ...]:
  """Runs an LSTM over a whole sequence `x`, `[time, batch, inputs]`; see `LSTMBlockCell`.

  Returns:
    `i, cs, f, o, ci, co, h`, each `[time, batch, units]`, 0 from step `seq_len_max` on. As in TensorFlow, only `cs` and
    `h` have derivatives, as if the cell state was not clipped.
  """
  peepholes = (wci, wcf, wco) if use_peephole else None
  return _block_lstm(seq_len_max, x, cs_prev, h_prev, w, peepholes, b, "icfo", forget_bias, cell_clip)


@register("BlockLSTMV2", ignores=("T",))
def block_lstm_v2(
  seq_len_max: Array,
  x: Array,
  cs_prev: Array,
  h_prev: Array,
  w: Array,
  wci: Array,
  wcf: Array,
  wco: Array,
  b: Array,
  *,
  cell_clip: float = 0.0,
  use_peephole: bool = False,
) -> tuple[Array, ...]:
  """Computes `BlockLSTM` with the gates in the order input, forget, cell, output, and without forget bias.

  Differs from TF: TensorFlow's gradient takes the gates in the order of `BlockLSTM`, so it is that of another function;
    ours is that of this op.
  """
  peepholes = (wci, wcf, wco) if use_peephole else None
  return _block_lstm(seq_len_max, x, cs_prev, h_prev, w, peepholes, b, "ifco", 0.0, cell_clip)


@register("GRUBlockCell", ignores=("T",))
def gru_block_cell(
  x: Array, h_prev: Array, w_ru: Array, w_c: Array, b_ru: Array, b_c: Array
) -> tuple[Array, Array, Array, Array]:
  """Computes one step of a GRU.

  Source op: `tf.raw_ops.GRUBlockCell`.

  Args:
    x: `[batch, inputs]` float32.
    h_prev: `[batch, units]`, state before.
    w_ru: `[inputs + units, 2 * units]`, weights of reset and update gate.
    w_c: `[inputs + units, units]`, weights of the candidate.
    b_ru: `[2 * units]`.
    b_c: `[units]`.

  Returns:
    `r, u, c, h`, each `[batch, units]`: reset gate, update gate, candidate, new state.
  """
  x, h_prev = jnp.asarray(x), jnp.asarray(h_prev)
  r, u = jnp.split(lax.logistic(jnp.concatenate([x, h_prev], axis=-1) @ w_ru + b_ru), 2, axis=-1)
  c = jnp.tanh(jnp.concatenate([x, h_prev * r], axis=-1) @ w_c + b_c)
  return r, u, c, u * h_prev + (1 - u) * c
