"""Programs of optax."""

from graftax.testing.jax_libraries.program import Programs, drawn


def programs() -> Programs:
  import jax
  import jax.numpy as jnp
  import optax

  x, y = drawn(5, 3), drawn(5, 3, seed=1)
  labels = jnp.array([0, 2, 1, 1, 0])

  def trained(optimizer):
    def function(w, x):
      def loss(w):
        return jnp.mean((x @ w - 1) ** 2)

      state = optimizer.init(w)
      for _ in range(3):
        value, gradient = jax.value_and_grad(loss)(w)
        updates, state = (
          optimizer.update(gradient, state, w)
          if optimizer is not lbfgs
          else optimizer.update(gradient, state, w, value=value, grad=gradient, value_fn=loss)
        )
        w = optax.apply_updates(w, updates)
      return w

    return function

  lbfgs = optax.lbfgs()
  optimizers = {
    "sgd": optax.sgd(0.1, momentum=0.9, nesterov=True),
    "adam": optax.adam(1e-2),
    "adamw": optax.adamw(1e-2),
    "lion": optax.lion(1e-2),
    "rmsprop": optax.rmsprop(1e-2),
    "adafactor": optax.adafactor(1e-2),
    "lamb": optax.lamb(1e-2),
    "novograd": optax.novograd(1e-2),
    "clipped": optax.chain(
      optax.clip_by_global_norm(0.5), optax.scale_by_schedule(optax.cosine_decay_schedule(0.1, 5))
    ),
    "lbfgs": lbfgs,
  }
  found = {name: (trained(each), drawn(3), x) for name, each in optimizers.items()}
  found |= {
    "cross_entropy": (lambda x: optax.softmax_cross_entropy_with_integer_labels(x, labels), x),
    "focal": (lambda x, y: optax.sigmoid_focal_loss(x, y), x, y),
    "huber": (lambda x, y: optax.huber_loss(x, y, delta=0.2), x, y),
    "ctc": (lambda x: optax.ctc_loss(x[None], jnp.zeros((1, 5)), jnp.array([[1, 2]]), jnp.zeros((1, 2))), x),
    "sinkhorn_projection": (lambda x: optax.projections.projection_simplex(x[:, 0]), x),
    "cosine": (lambda x, y: optax.cosine_similarity(x, y), x, y),
    "hungarian": (lambda x: optax.assignment.hungarian_algorithm(x)[1], x),
  }
  return found
