"""Recurrent networks of cuDNN: CudnnRNN, CudnnRNNV2, CudnnRNNV3, and the order in which they pack weights.

The packed weights are all matrices, then all biases. Both are in the order of layers; within a layer, of directions;
within a direction, the gates that multiply the input come before the gates that multiply the state. Matrices are
`[units, inputs]` in row-major order.
"""

import math
from typing import Any, NamedTuple, TypedDict, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.ops_jax._core.errors import InvalidInputError, UnsupportedAttrError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, StaticSize

__all__ = [
  "cudnn_rnn",
  "cudnn_rnn_canonical_to_params",
  "cudnn_rnn_canonical_to_params_v2",
  "cudnn_rnn_params_size",
  "cudnn_rnn_params_to_canonical",
  "cudnn_rnn_params_to_canonical_v2",
  "cudnn_rnn_v2",
  "cudnn_rnn_v3",
]

# Gates, in cuDNN's order: LSTM input, forget, cell, output; GRU reset, update, new.
_NUM_GATES = {"lstm": 4, "gru": 3, "rnn_relu": 1, "rnn_tanh": 1}


class _Attrs(TypedDict, total=False):
  """Attributes that describe a network.

  The newer ops also have `num_proj`, the size of projected states, which must be 0.

  Attributes:
    rnn_mode: `"lstm"`, `"gru"`, `"rnn_relu"` or `"rnn_tanh"`.
    input_mode: `"linear_input"`; an input without weights is not supported.
    direction: `"unidirectional"` or `"bidirectional"`.
    dropout: probability of dropout between layers; not supported in training.
  """

  rnn_mode: str
  input_mode: str
  direction: str
  dropout: float


class _Network(NamedTuple):
  """The sizes of a network.

  Attributes:
    op: name of the op, for messages.
    mode: `rnn_mode`.
    num_layers: number of layers.
    num_directions: 2 if it is bidirectional.
    units: size of the state.
    input_size: size of the input.
  """

  op: str
  mode: str
  num_layers: int
  num_directions: int
  units: int
  input_size: int

  @property
  def matrix_shapes(self) -> list[tuple[int, int]]:
    gates = _NUM_GATES[self.mode]
    shapes = []
    for layer in range(self.num_layers):
      size = self.input_size if layer == 0 else self.units * self.num_directions
      shapes += ([(self.units, size)] * gates + [(self.units, self.units)] * gates) * self.num_directions
    return shapes

  @property
  def num_params(self) -> int:
    return sum(math.prod(shape) + self.units for shape in self.matrix_shapes)

  def unpack(self, params: jax.Array) -> tuple[list[jax.Array], list[jax.Array]]:
    """Returns all matrices and all biases."""
    shapes = [*self.matrix_shapes, *[(self.units,)] * len(self.matrix_shapes)]
    if params.size != self.num_params:
      raise InvalidInputError(f"{self.op}: params has {params.size} elements; expected {self.num_params} for {self!r}.")
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    parts = jnp.split(params.reshape(-1), ends[:-1])
    arrays = [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
    return arrays[: len(self.matrix_shapes)], arrays[len(self.matrix_shapes) :]


def _network(op: str, num_layers: int, units: int, input_size: int, **attrs: Unpack[_Attrs]) -> _Network:
  if attrs.get("input_mode") == "skip_input":
    raise UnsupportedAttrError(f"{op}: input_mode='skip_input' is not supported; expected 'linear_input'.")
  directions = 2 if attrs.get("direction") == "bidirectional" else 1
  return _Network(op, attrs.get("rnn_mode", "lstm"), num_layers, directions, units, input_size)


def _check_projection(op: str, num_proj: int) -> None:
  if num_proj:
    raise UnsupportedAttrError(f"{op}: num_proj={num_proj} is not supported; expected 0, states without projection.")


class _Layer(NamedTuple):
  """One direction of one layer; `[gates * units, inputs]`, `[gates * units, units]` and two `[gates * units]`."""

  input_weights: jax.Array
  state_weights: jax.Array
  input_bias: jax.Array
  state_bias: jax.Array


def _step(mode: str, layer: _Layer, from_input: jax.Array, h: jax.Array, c: jax.Array) -> tuple[jax.Array, jax.Array]:
  from_state = h @ layer.state_weights.T + layer.state_bias
  if mode == "gru":
    reset_x, update_x, new_x = jnp.split(from_input, 3, axis=-1)
    reset_h, update_h, new_h = jnp.split(from_state, 3, axis=-1)
    update = lax.logistic(update_x + update_h)
    new = jnp.tanh(new_x + lax.logistic(reset_x + reset_h) * new_h)
    return (1 - update) * new + update * h, c
  gates = from_input + from_state
  if mode == "lstm":
    in_gate, forget_gate, cell, out_gate = jnp.split(gates, 4, axis=-1)
    c = lax.logistic(forget_gate) * c + lax.logistic(in_gate) * jnp.tanh(cell)
    return lax.logistic(out_gate) * jnp.tanh(c), c
  return (jax.nn.relu(gates) if mode == "rnn_relu" else jnp.tanh(gates)), c


def _run_layer(
  mode: str, layer: _Layer, x: jax.Array, h: jax.Array, c: jax.Array, lengths: jax.Array | None, reverse: bool
) -> tuple[jax.Array, jax.Array, jax.Array]:
  """Returns the outputs `[time, batch, units]`, 0 beyond the lengths, and both states after the last valid step."""
  from_input = x @ layer.input_weights.T + layer.input_bias

  def step(carry: Any, item: Any) -> Any:
    time, now = item
    new = _step(mode, layer, now, *carry)
    if lengths is None:
      return new, new[0]
    is_live = (time < lengths)[:, None]
    kept = tuple(jnp.where(is_live, after, before) for after, before in zip(new, carry, strict=True))
    return kept, jnp.where(is_live, new[0], 0)

  times = jnp.arange(x.shape[0], dtype=np.int32)
  (h, c), outputs = lax.scan(step, (h, c), (times, from_input), reverse=reverse)
  return outputs, h, c


def _run(
  op: str, x: Any, h: Any, c: Any, params: Any, lengths: Array | None, is_training: bool, **attrs: Unpack[_Attrs]
) -> tuple[jax.Array, jax.Array, jax.Array]:
  """Runs a network on `x`, `[time, batch, inputs]`; states are `[layers * directions, batch, units]`."""
  if is_training and attrs.get("dropout", 0.0):
    raise UnsupportedAttrError(f"{op}: dropout={attrs['dropout']} in training is not supported; expected 0.")
  x, h, params = jnp.asarray(x), jnp.asarray(h), jnp.asarray(params)
  directions = 2 if attrs.get("direction") == "bidirectional" else 1
  network = _network(op, h.shape[0] // directions, h.shape[2], x.shape[2], **attrs)
  c = jnp.asarray(c) if network.mode == "lstm" else jnp.zeros(h.shape, h.dtype)
  matrices, biases = network.unpack(params)
  gates = _NUM_GATES[network.mode]
  last_h, last_c = [], []
  for first in range(0, h.shape[0], directions):
    outputs = []
    for index in range(first, first + directions):
      packed = [
        jnp.concatenate(group[(2 * index + part) * gates : (2 * index + part + 1) * gates])
        for group in (matrices, biases)
        for part in (0, 1)
      ]
      output, h_last, c_last = _run_layer(
        network.mode,
        _Layer(*packed),
        x,
        h[index],
        c[index],
        None if lengths is None else jnp.asarray(lengths),
        reverse=index > first,
      )
      outputs.append(output)
      last_h.append(h_last)
      last_c.append(c_last)
    x = jnp.concatenate(outputs, axis=-1)
  return x, jnp.stack(last_h), jnp.stack(last_c)


_UNUSED = ("T", "seed", "seed2")


@register("CudnnRNN", ignores=_UNUSED)
def cudnn_rnn(
  input: Array, input_h: Array, input_c: Array, params: Array, *, is_training: bool = True, **attrs: Unpack[_Attrs]
) -> tuple[Array, Array, Array, Array]:
  """Runs a recurrent network of cuDNN.

  Source op: `tf.raw_ops.CudnnRNN`.

  Args:
    input: `[time, batch, inputs]`, floating point.
    input_h: `[layers * directions, batch, units]`, the state before.
    input_c: the same, the cell state of an LSTM; unused otherwise.
    params: the packed weights.
    is_training: whether dropout is applied.
    **attrs: see `_Attrs`.

  Returns:
    Outputs `[time, batch, directions * units]`, both states after the last step, and an empty array for cuDNN's own
    data.

  Raises:
    UnsupportedAttrError: dropout in training, an input without weights, or projected states.
    InvalidInputError: the packed weights do not have the size of the network.
  """
  output, h, c = _run("CudnnRNN", input, input_h, input_c, params, None, is_training, **attrs)
  return output, h, c, jnp.zeros(0, output.dtype)


@register("CudnnRNNV2", ignores=_UNUSED)
def cudnn_rnn_v2(
  input: Array, input_h: Array, input_c: Array, params: Array, *, is_training: bool = True, **attrs: Unpack[_Attrs]
) -> tuple[Array, Array, Array, Array, Array]:
  """Computes `CudnnRNN`, with one more empty array as a result."""
  return *cudnn_rnn(input, input_h, input_c, params, is_training=is_training, **attrs), jnp.zeros(0, np.int8)


@register("CudnnRNNV3", ignores=_UNUSED)
def cudnn_rnn_v3(
  input: Array,
  input_h: Array,
  input_c: Array,
  params: Array,
  sequence_lengths: Array,
  *,
  num_proj: int = 0,
  is_training: bool = True,
  time_major: bool = True,
  **attrs: Unpack[_Attrs],
) -> tuple[Array, Array, Array, Array, Array]:
  """Computes `CudnnRNNV2` for sequences of different lengths; outputs beyond the length of a sequence are 0.

  Source op: `tf.raw_ops.CudnnRNNV3`.

  Args:
    input: as for `CudnnRNN`, or `[batch, time, inputs]` unless `time_major` is set.
    input_h: as for `CudnnRNN`, or `[batch, layers * directions, units]` unless `time_major` is set.
    input_c: likewise.
    params: the packed weights.
    sequence_lengths: `[batch]` int32.
    num_proj: must be 0: projected states are not supported.
    is_training: whether dropout is applied.
    time_major: the layout of inputs and results.
    **attrs: see `_Attrs`.

  Returns:
    As `CudnnRNNV2`, in the layout of the inputs.
  """
  _check_projection("CudnnRNNV3", num_proj)
  arrays = [jnp.asarray(x) for x in (input, input_h, input_c)]
  x, h, c = arrays if time_major else [jnp.swapaxes(a, 0, 1) if a.ndim == 3 else a for a in arrays]
  output, h, c = _run("CudnnRNNV3", x, h, c, params, sequence_lengths, is_training, **attrs)
  results = (output, h, c) if time_major else [jnp.swapaxes(a, 0, 1) for a in (output, h, c)]
  return *results, jnp.zeros(0, output.dtype), jnp.zeros(0, np.int8)


@register("CudnnRNNParamsSize", ignores=_UNUSED)
def cudnn_rnn_params_size(
  num_layers: StaticSize,
  num_units: StaticSize,
  input_size: StaticSize,
  *,
  S: np.dtype,
  num_proj: int = 0,
  **attrs: Unpack[_Attrs],
) -> np.ndarray:
  """Returns the number of packed weights of a network, `[1]` of `S`."""
  _check_projection("CudnnRNNParamsSize", num_proj)
  return np.array([_network("CudnnRNNParamsSize", num_layers, num_units, input_size, **attrs).num_params], S)


@register("CudnnRNNParamsToCanonical", ignores=(*_UNUSED, "num_params"))
def cudnn_rnn_params_to_canonical(
  num_layers: StaticSize,
  num_units: StaticSize,
  input_size: StaticSize,
  params: Array,
  **attrs: Unpack[_Attrs],
) -> tuple[Array, ...]:
  """Returns the matrices, `[units, inputs]` each, and biases, `[units]` each, of packed weights.

  Source op: `tf.raw_ops.CudnnRNNParamsToCanonical`.

  Raises:
    InvalidInputError: the packed weights do not have the size of the network.
  """
  network = _network("CudnnRNNParamsToCanonical", num_layers, num_units, input_size, **attrs)
  matrices, biases = network.unpack(jnp.asarray(params))
  return *matrices, *biases


@register("CudnnRNNParamsToCanonicalV2", ignores=(*_UNUSED, "num_params_weights", "num_params_biases"))
def cudnn_rnn_params_to_canonical_v2(
  num_layers: StaticSize,
  num_units: StaticSize,
  input_size: StaticSize,
  params: Array,
  *,
  num_proj: int = 0,
  **attrs: Unpack[_Attrs],
) -> tuple[Array, ...]:
  """Computes `CudnnRNNParamsToCanonical`."""
  _check_projection("CudnnRNNParamsToCanonicalV2", num_proj)
  return cudnn_rnn_params_to_canonical(num_layers, num_units, input_size, params, **attrs)


@register("CudnnRNNCanonicalToParams", ignores=(*_UNUSED, "num_params"))
def cudnn_rnn_canonical_to_params(
  num_layers: StaticSize,
  num_units: StaticSize,
  input_size: StaticSize,
  weights: list[Array],
  biases: list[Array],
  **attrs: Unpack[_Attrs],
) -> Array:
  """Returns matrices and biases in the order in which cuDNN packs them.

  Source op: `tf.raw_ops.CudnnRNNCanonicalToParams`.

  Raises:
    InvalidInputError: the arrays do not have the sizes of the network.
  """
  network = _network("CudnnRNNCanonicalToParams", num_layers, num_units, input_size, **attrs)
  sizes = [math.prod(jnp.shape(w)) for w in weights], [math.prod(jnp.shape(b)) for b in biases]
  expected = [math.prod(shape) for shape in network.matrix_shapes], [num_units] * len(network.matrix_shapes)
  if sizes != expected:
    raise InvalidInputError(f"CudnnRNNCanonicalToParams: weights and biases of sizes {sizes!r}; expected {expected!r}.")
  return jnp.concatenate([jnp.ravel(jnp.asarray(x)) for x in (*weights, *biases)])


@register("CudnnRNNCanonicalToParamsV2", ignores=(*_UNUSED, "num_params_weights", "num_params_biases"))
def cudnn_rnn_canonical_to_params_v2(
  num_layers: StaticSize,
  num_units: StaticSize,
  input_size: StaticSize,
  weights: list[Array],
  biases: list[Array],
  *,
  num_proj: int = 0,
  **attrs: Unpack[_Attrs],
) -> Array:
  """Computes `CudnnRNNCanonicalToParams`."""
  _check_projection("CudnnRNNCanonicalToParamsV2", num_proj)
  return cudnn_rnn_canonical_to_params(num_layers, num_units, input_size, weights, biases, **attrs)
