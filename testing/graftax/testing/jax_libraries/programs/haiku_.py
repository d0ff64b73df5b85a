"""Programs of haiku."""

from graftax.testing.jax_libraries.program import Programs, drawn


def programs() -> Programs:
  import haiku as hk
  import jax

  def net(forward, *example):
    transformed = hk.without_apply_rng(hk.transform(forward))
    params = transformed.init(jax.random.key(0), *example)
    return (lambda *args: transformed.apply(params, *args), *example)

  seq, image = drawn(2, 5, 4), drawn(2, 8, 8, 3)

  def recurrent(core):
    return lambda x: hk.dynamic_unroll(core(), x, core_state(x, core), time_major=False)[0]

  def core_state(x, core):
    return core().initial_state(x.shape[0])

  return {
    "mlp": net(lambda x: hk.nets.MLP([8, 3])(x), drawn(2, 4)),
    "lstm": net(recurrent(lambda: hk.LSTM(4)), seq),
    "gru": net(recurrent(lambda: hk.GRU(4)), seq),
    "conv": net(lambda x: hk.AvgPool(2, 2, "SAME")(jax.nn.gelu(hk.Conv2D(4, 3)(x))), image),
    "conv_transpose": net(lambda x: hk.Conv2DTranspose(4, 3, 2)(x), image),
    "depthwise": net(lambda x: hk.DepthwiseConv2D(2, 3)(x), image),
    "attention": net(lambda x: hk.MultiHeadAttention(2, 4, w_init=hk.initializers.VarianceScaling())(x, x, x), seq),
    "layer_norm": net(lambda x: hk.LayerNorm(-1, True, True)(x), seq),
    "group_norm": net(lambda x: hk.GroupNorm(2)(hk.Conv2D(4, 3)(x)), image),
    "vector_quantizer": net(lambda x: hk.nets.VectorQuantizer(4, 8, 0.25)(x, False)["loss"], seq),
    "max_pool": net(lambda x: hk.MaxPool(2, 2, "VALID")(x), image),
  }
