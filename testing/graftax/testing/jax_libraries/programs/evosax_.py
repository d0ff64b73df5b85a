"""Programs of evosax."""

from graftax.testing.jax_libraries.program import Programs, drawn


def programs() -> Programs:
  import jax
  import jax.numpy as jnp
  from evosax import algorithms

  x = drawn(4)

  def evolved(name):
    # From the second generation on, CMA-ES samples along eigenvectors, whose signs depend on the implementation.
    generations = 1 if name == "CMA_ES" else 2

    def function(x):
      strategy = getattr(algorithms, name)(population_size=6, solution=x)
      params, key = strategy.default_params, jax.random.key(0)
      state = strategy.init(key, x, params)
      for _ in range(generations):
        population, state = strategy.ask(key, state, params)
        state, _ = strategy.tell(key, population, jnp.sum(population**2, -1), state, params)
      return state.best_fitness, state.mean

    return function

  return {name: (evolved(name), x) for name in ("CMA_ES", "SNES", "xNES", "Open_ES", "SimpleES", "Sep_CMA_ES")}
