"""Recurrent, convolutional and attention models of sequences and time series."""

from graftax.testing.harness.conversion_case import Collector, integers, normal
from graftax.testing.tensorflow_programs.layers import Layers, with_layers

define = Collector("sequence", with_layers)

_ALL = ("jit", "batch", "grad", "param_grad")
_LOOSE = (1e-4, 1e-5)
_SERIES = normal(2, 12, 4)


def _keras(tf, build, *shape):
  tf.keras.utils.set_random_seed(0)
  inputs = tf.keras.Input(shape)
  model = tf.keras.Model(inputs, build(tf.keras.layers, inputs))
  function = tf.function(lambda x: model(x, training=False))
  function.model = model
  return function


@define(_SERIES, checks=_ALL, tolerance=_LOOSE)
def keras_bidirectional_lstm(tf):
  return _keras(
    tf, lambda k, x: k.Dense(3)(k.LSTM(5)(k.Bidirectional(k.LSTM(6, return_sequences=True))(k.Masking(0.0)(x)))), 12, 4
  )


@define(_SERIES, checks=_ALL, tolerance=_LOOSE)
def keras_gru(tf):
  return _keras(tf, lambda k, x: k.TimeDistributed(k.Dense(3))(k.GRU(5, return_sequences=True)(x)), 12, 4)


@define(normal(1, 4, 8, 8, 2), checks=("jit", "batch", "param_grad"), tolerance=_LOOSE)
def keras_conv_lstm(tf):
  return _keras(tf, lambda k, x: k.Conv2D(1, 3)(k.ConvLSTM2D(4, 3, padding="same")(x)), 4, 8, 8, 2)


@define(_SERIES, checks=_ALL, tolerance=_LOOSE)
def temporal_convolutional_network(tf, layers, x):
  for i, rate in enumerate((1, 2, 4)):
    y = tf.pad(x, [[0, 0], [2 * rate, 0], [0, 0]])
    y = layers.conv(f"conv{i}", y, 8, 3, rate=rate, activation=tf.nn.relu, padding="VALID")
    x = y + (x if x.shape[-1] == 8 else layers.conv(f"skip{i}", x, 8, 1))
  return layers.dense("head", x[:, -1], 2)


@define(normal(2, 8, 4), checks=("jit", "batch", "param_grad"), tolerance=_LOOSE)
def nbeats(tf, layers, x):
  rest, total = tf.reshape(x, [-1, 32]), 0.0
  for i in range(3):
    theta = layers.dense(f"theta{i}", layers.dense(f"hidden{i}", rest, 16, tf.nn.relu), 6)
    powers = (tf.range(32, dtype=tf.float32) / 32.0)[None] ** tf.range(6, dtype=tf.float32)[:, None]
    rest -= tf.matmul(theta, powers)
    total += layers.dense(f"forecast{i}", theta, 5)
  return total


@define(integers(2, 10, high=20), integers(2, low=3, high=11), checks=("jit", "batch", "param_grad"), tolerance=_LOOSE)
def bert_encoder(tf, layers, ids, lengths):
  mask = (1.0 - tf.sequence_mask(lengths, 10, tf.float32))[:, None, None] * -1e9
  x = layers.embedding("words", ids, 20, 16) + layers.weight("positions", 10, 16, scale=0.1)
  x = layers.layer_norm("norm", x + layers.embedding("types", tf.zeros_like(ids), 2, 16))
  for i in range(2):
    x = layers.transformer(f"layer{i}", x, mask=mask)
  logits = tf.matmul(x, layers.weight("words", 20, 16), transpose_b=True)
  return {"pooled": layers.dense("pool", x[:, 0], 16, tf.tanh), "logits": logits}


def _sampled_decoder(tf, layers, pick):
  """Returns a decoder with a cache, which runs until all rows have ended."""

  def decode(ids, seed):
    memory = layers.embedding("words", ids, 20, 16)
    batch = tf.shape(ids)[0]
    tokens = tf.zeros([batch, 9], tf.int32)
    cache = tf.zeros([batch, 8, 16])
    done = tf.zeros([batch], tf.bool)
    step = 0
    while step < 8 and not tf.reduce_all(done):
      x = layers.embedding("words", tokens[:, step], 20, 16)[:, None] + layers.weight("positions", 8, 16)[step]
      cache = tf.tensor_scatter_nd_update(tf.transpose(cache, [1, 0, 2]), [[step]], tf.transpose(x, [1, 0, 2]))
      cache = tf.transpose(cache, [1, 0, 2])
      mask = tf.where(tf.range(8) <= step, 0.0, -1e9)
      x += layers.attention("self", layers.layer_norm("norm1", x), cache, 2, mask)
      x += layers.attention("cross", layers.layer_norm("norm2", x), memory, 2)
      logits = layers.dense("out", layers.layer_norm("norm3", x)[:, 0], 20)
      chosen = tf.where(done, 0, pick(logits, seed + step))
      tokens = tf.tensor_scatter_nd_update(tokens, tf.stack([tf.range(batch), tf.fill([batch], step + 1)], -1), chosen)
      done |= tf.equal(chosen, 1)
      step += 1
    return tokens, step

  return tf.function(decode)


@define(integers(2, 6, high=20), integers(low=0, high=9), checks=("jit", "batch"), tolerance=_LOOSE, batched=(0,))
def t5_decoder_with_greedy_loop(tf):
  return _sampled_decoder(tf, Layers(), lambda logits, seed: tf.argmax(logits, -1, output_type=tf.int32))


@define(integers(2, 6, high=20), integers(low=0, high=9), checks=("jit", "batch"), tolerance=_LOOSE, batched=(0,))
def decoder_with_sampling_loop(tf):
  def pick(logits, seed):
    sorted_logits = tf.sort(logits, direction="DESCENDING")
    kept = tf.cumsum(tf.nn.softmax(sorted_logits), axis=-1, exclusive=True) < 0.9
    least = tf.reduce_min(tf.where(kept, sorted_logits, 1e9), -1, keepdims=True)
    noise = tf.random.stateless_uniform(tf.shape(logits), [seed, 7], 1e-6, 1.0)
    return tf.argmax(tf.where(logits >= least, logits, -1e9) - tf.math.log(-tf.math.log(noise)), -1, tf.int32)

  return _sampled_decoder(tf, Layers(), pick)


@define(integers(2, 5, high=12), checks=("jit", "batch"), tolerance=_LOOSE)
def decoder_with_beam_search(tf):
  layers = Layers()
  width = 3

  def decode(ids):
    batch = tf.shape(ids)[0]
    state = tf.repeat(tf.reduce_mean(layers.embedding("words", ids, 12, 8), 1), width, 0)
    scores = tf.tile([[0.0, -1e9, -1e9]], [batch, 1])
    tokens = tf.TensorArray(tf.int32, 6, element_shape=[None, width])
    parents = tf.TensorArray(tf.int32, 6, element_shape=[None, width])
    last = tf.zeros([batch * width], tf.int32)
    for step in tf.range(6):
      x = tf.concat([layers.embedding("words", last, 12, 8), state], -1)
      state = layers.dense("state", x, 8, tf.tanh)
      steps = tf.reshape(tf.nn.log_softmax(layers.dense("out", state, 12)), [batch, width, 12])
      scores, places = tf.math.top_k(tf.reshape(scores[..., None] + steps, [batch, 12 * width]), width)
      rows = tf.reshape(places // 12 + tf.range(batch)[:, None] * width, [-1])
      state, last = tf.gather(state, rows), tf.reshape(places % 12, [-1])
      tokens, parents = tokens.write(step, places % 12), parents.write(step, places // 12)
    return tokens.stack(), parents.stack(), scores

  return tf.function(decode)


@define(integers(2, 7, high=12), integers(2, 5, high=12), checks=("jit", "batch", "param_grad"), tolerance=_LOOSE)
def seq2seq_with_attention(tf, layers, source, target):
  def cell(name, x, state):
    update, reset = tf.split(tf.sigmoid(layers.dense(f"{name}/gates", tf.concat([x, state], -1), 16)), 2, -1)
    new = tf.tanh(layers.dense(f"{name}/new", tf.concat([x, reset * state], -1), 8))
    return update * state + (1.0 - update) * new

  x = tf.transpose(layers.embedding("words", source, 12, 8), [1, 0, 2])
  start = tf.zeros_like(x[0])
  states = tf.scan(lambda state, now: cell("encoder", now, state), x, start)
  keys = tf.transpose(states, [1, 0, 2])

  def step(state, now):
    energy = tf.tanh(layers.dense("query", state, 8)[:, None] + layers.dense("key", keys, 8))
    weights = tf.nn.softmax(layers.dense("energy", energy, 1)[..., 0])
    return cell("decoder", tf.concat([now, tf.einsum("bt,btd->bd", weights, keys)], -1), state)

  y = tf.scan(step, tf.transpose(layers.embedding("words", target, 12, 8), [1, 0, 2]), states[-1])
  return layers.dense("out", tf.transpose(y, [1, 0, 2]), 12)


@define(integers(2, 6, high=12), normal(2, 4, 8), checks=("jit", "batch", "param_grad"), tolerance=_LOOSE)
def transformer_xl(tf, layers, ids, memory):
  x = layers.embedding("words", ids, 12, 8)
  keys = tf.concat([tf.stop_gradient(memory), x], 1)
  q, k, v = layers.dense("q", x, 8), layers.dense("k", keys, 8), layers.dense("v", keys, 8)
  positions = layers.weight("relative", 10, 8)
  content = tf.matmul(q + layers.weight("u", 8), k, transpose_b=True)
  relative = tf.einsum("btd,sd->bts", q + layers.weight("v_bias", 8), positions)
  relative = tf.reshape(tf.pad(relative, [[0, 0], [0, 0], [1, 0]]), [-1, 11, 6])
  relative = tf.reshape(relative[:, 1:], [-1, 6, 10])
  mask = tf.linalg.band_part(tf.ones([6, 10]), -1, 4)
  weights = tf.nn.softmax(tf.where(mask > 0.0, content + relative, -1e9) * 8**-0.5)
  return layers.dense("out", x + tf.matmul(weights, v), 12), tf.concat([memory, x], 1)[:, -4:]


@define(normal(2, 6, 8), checks=_ALL, tolerance=_LOOSE)
def mixture_of_experts(tf, layers, x):
  tokens = tf.reshape(x, [-1, 8])
  gates = tf.nn.softmax(layers.dense("router", tokens, 4))
  weights, experts = tf.math.top_k(gates, 2)
  routes = tf.one_hot(experts, 4)
  place = tf.cumsum(tf.reduce_sum(routes, 1), 0, exclusive=True)
  is_kept = tf.cast(tf.reduce_sum(place[:, None] * routes, -1) < 5.0, tf.float32)
  hidden = tf.nn.relu(tf.einsum("td,edh->teh", tokens, layers.weight("up", 4, 8, 16, scale=0.3)))
  out = tf.einsum("teh,ehd->ted", hidden, layers.weight("down", 4, 16, 8, scale=0.3))
  mixed = tf.einsum("tk,tke,ted->td", weights * is_kept, routes, out)
  balance = 4.0 * tf.reduce_sum(tf.reduce_mean(gates, 0) * tf.reduce_mean(routes[:, 0], 0))
  return tf.reshape(mixed, tf.shape(x)), balance


@define(integers(2, 128, high=4), checks=("jit", "batch", "param_grad"), tolerance=(1e-3, 1e-4))
def enformer(tf, layers, ids):
  x = layers.conv("stem", tf.one_hot(ids, 4), 8, 15)
  for i in range(3):
    y = layers.conv(f"conv{i}", tf.nn.gelu(layers.layer_norm(f"norm{i}", x), approximate=True), 8, 5)
    pairs = tf.reshape(x + y, [tf.shape(x)[0], -1, 2, 8])
    weights = tf.nn.softmax(tf.einsum("btpd,de->btpe", pairs, layers.weight(f"pool{i}", 8, 8)), 2)
    x = tf.reduce_sum(pairs * weights, 2)
  distances = tf.cast(tf.abs(tf.range(16)[:, None] - tf.range(16)), tf.float32)
  decay = tf.exp(-distances[..., None] * tf.math.log(2.0) / tf.pow(2.0, tf.range(1.0, 5.0)))
  bias = tf.einsum("ijk,kh->hij", decay, layers.weight("bias", 4, 2))
  x += layers.attention("attention", x, x, 2, bias[None])
  return tf.nn.softplus(layers.dense("tracks", x[:, 4:-4], 6))
