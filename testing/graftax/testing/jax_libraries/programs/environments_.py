"""Programs of gymnax, jumanji and pgx."""

from graftax.testing.jax_libraries.program import Programs, drawn


def programs() -> Programs:
  import gymnax
  import jax
  import jax.numpy as jnp
  import pgx

  a = drawn(4)

  def episode(name):
    env, params = gymnax.make(name)

    def function(a):
      obs, state = env.reset(jax.random.key(0), params)
      total = jnp.zeros(())
      for i in range(3):
        action = a[:1] if name.startswith(("Pendulum", "MountainCarC")) else (a[i] > 0.5).astype(jnp.int32)
        obs, state, reward, *_ = env.step(jax.random.key(i), state, action, params)
        total += reward
      return obs, total

    return function

  def game(name, actions):
    env = pgx.make(name)

    def function(a):
      state = env.init(jax.random.key(0))
      for action in actions:
        state = env.step(state, jnp.int32(action) + (a[0] > 2).astype(jnp.int32))
      return state.observation.astype(jnp.float32), state.rewards

    return function

  names = ("CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCarContinuous-v0")
  found = {name.lower().replace("-", "_"): (episode(name), a) for name in names}
  found |= {
    "tic_tac_toe": (game("tic_tac_toe", (0, 4, 8)), a),
    "connect_four": (game("connect_four", (3, 3, 2)), a),
    "go_9x9": (game("go_9x9", (40, 41)), a),
  }
  return found
