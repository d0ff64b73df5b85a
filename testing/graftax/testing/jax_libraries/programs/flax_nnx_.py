"""Programs of flax.nnx."""

from graftax.testing.jax_libraries.program import Programs, drawn


def programs() -> Programs:
  import jax.numpy as jnp
  from flax import nnx

  seq, image = drawn(2, 5, 4), drawn(2, 8, 8, 3)
  rngs = nnx.Rngs(0)

  def applied(module, *args):
    graph, state = nnx.split(module)
    # A copy, so that what a call assigns stays in it.
    return (lambda *args: nnx.merge(graph, state, copy=True)(*args), *args)

  class Block(nnx.Module):
    def __init__(self, rngs):
      self.attention = nnx.MultiHeadAttention(2, 4, decode=False, rngs=rngs)
      self.norm = nnx.RMSNorm(4, rngs=rngs)
      self.out = nnx.Linear(4, 4, rngs=rngs)

    def __call__(self, x):
      return x + self.out(nnx.gelu(self.attention(self.norm(x))))

  class Counter(nnx.Module):
    def __init__(self):
      self.mean = nnx.BatchStat(jnp.zeros(4))

    def __call__(self, x):
      self.mean[...] = 0.9 * self.mean[...] + 0.1 * x.mean((0, 1))
      return x - self.mean[...]

  return {
    "linear": applied(nnx.Linear(4, 3, rngs=rngs), seq),
    "conv": applied(nnx.Conv(3, 4, (3, 3), strides=2, rngs=rngs), image),
    "conv_transpose": applied(nnx.ConvTranspose(3, 4, (3, 3), strides=2, rngs=rngs), image),
    "batch_norm": applied(nnx.BatchNorm(3, use_running_average=True, rngs=rngs), image),
    "block": applied(Block(rngs), seq),
    "rnn": applied(nnx.RNN(nnx.LSTMCell(4, 6, rngs=rngs)), seq),
    "bidirectional": applied(
      nnx.Bidirectional(nnx.RNN(nnx.GRUCell(4, 3, rngs=rngs)), nnx.RNN(nnx.GRUCell(4, 3, rngs=rngs))), seq
    ),
    "einsum": applied(nnx.Einsum("bij,jk->bik", (4, 3), (3,), rngs=rngs), seq),
    "group_norm": applied(nnx.GroupNorm(4, num_groups=2, rngs=rngs), seq),
    "state": applied(Counter(), seq),
    "dropout": applied(nnx.Dropout(0.5, deterministic=True), seq),
  }
