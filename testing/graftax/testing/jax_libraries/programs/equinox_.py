"""Programs of equinox."""

from graftax.testing.jax_libraries.program import Programs, drawn


def programs() -> Programs:
  import equinox as eqx
  import jax
  import jax.numpy as jnp

  key = jax.random.key(0)
  v, seq, image = drawn(4), drawn(5, 4), drawn(3, 8, 8)

  def ode(y):
    return jax.lax.scan(lambda y, _: (y + 0.1 * net(y), y), y, None, length=4)[1]

  net = eqx.nn.MLP(4, 4, 8, 2, key=key)
  attention = eqx.nn.MultiheadAttention(2, 4, key=key)
  lstm = eqx.nn.LSTMCell(4, 3, key=key)

  def recurrent(xs):
    return jax.lax.scan(lambda s, x: (lstm(x, s), None), (jnp.zeros(3), jnp.zeros(3)), xs)[0]

  return {
    "mlp": (net, v),
    "neural_ode": (ode, v),
    "lstm": (recurrent, seq),
    "conv": (eqx.nn.Conv2d(3, 4, 3, key=key), image),
    "attention": (lambda x: attention(x, x, x), seq),
    "layer_norm": (eqx.nn.LayerNorm(4), v),
    "pool": (eqx.nn.AdaptiveAvgPool2d(3), image),
    "max_pool": (eqx.nn.MaxPool2d(2, 2), image),
    "rotary": (eqx.nn.RotaryPositionalEmbedding(4), seq),
    "spectral": (eqx.nn.PReLU(), v),
    "checkpointed_loop": (
      lambda y: eqx.internal.while_loop(
        lambda s: s[0] < 4, lambda s: (s[0] + 1, jnp.sin(s[1]) + 1), (0, y), max_steps=8, kind="checkpointed"
      )[1],
      v,
    ),
    "error_if": (lambda y: eqx.error_if(y, jnp.any(y < 0), "negative"), v),
    "filter_custom": (lambda y: eqx.filter_closure_convert(lambda z: jnp.sin(z) * y, y)(y), v),
  }
