import tempfile
import unittest
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from payload_tool.payloads import read
from payload_tool.soft_clip import TARGET, soft_clip

from graftax.xla_call_module import Module

_LIMIT = 0.5


def _loss(params, example):
  return soft_clip(params["w"] @ example + params["b"], _LIMIT).sum()


def _clipped(x):
  """The same by JAX's `custom_vjp`."""

  @jax.custom_vjp
  def clip(x):
    return _LIMIT * jnp.tanh(x / _LIMIT)

  clip.defvjp(lambda x: (clip(x), x), lambda x, ct: (jnp.where(jnp.abs(x) <= _LIMIT, ct, 0),))
  return clip(x)


class PayloadTest(unittest.TestCase):
  def test_gradients_of_examples_are_those_of_the_plug_in(self):
    params = {"w": jnp.arange(6, dtype=jnp.float32).reshape(2, 3) / 10, "b": jnp.float32(0.1)}
    batch = jnp.linspace(-1, 2, 12, dtype=jnp.float32).reshape(4, 3)
    # The derivative of the custom call is known only where the file is read, so it is exported without one.
    exported = jax.export.export(
      jax.jit(_loss), disabled_checks=[jax.export.DisabledSafetyCheck.custom_call(TARGET)], platforms=["cpu"]
    )(params, batch[0])
    with tempfile.TemporaryDirectory() as folder:
      path = Path(folder) / "loss.zip"
      Module.from_exported(exported).save(path)
      payload = read(path)
    self.assertEqual(payload.parameters, ("args[0]['b']: float32[]", "args[0]['w']: float32[2, 3]"))
    found = payload.gradients(params, batch)
    expected = jax.vmap(jax.grad(lambda p, x: _clipped(p["w"] @ x + p["b"]).sum()), (None, 0))(params, batch)
    for name in params:
      np.testing.assert_allclose(found[name], expected[name], rtol=1e-6)
    values = jax.vmap(payload.function, (None, 0))(params, batch)
    np.testing.assert_allclose(values, jax.vmap(lambda x: _clipped(params["w"] @ x + 0.1).sum())(batch), rtol=1e-5)


if __name__ == "__main__":
  unittest.main()
