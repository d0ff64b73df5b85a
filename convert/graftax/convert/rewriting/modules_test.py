import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.convert import jax_program
from graftax.convert.rewriting import call_modules
from graftax.xla_call_module import DerivativeError, Module, lift, structured

X = np.array([0.3, 1.7], np.float32)


def _rounded(x):
  return {"y": x + jax.lax.stop_gradient(jnp.round(x) - x)}


def test_the_module_of_a_program_computes_what_the_function_does(tmp_path):
  program = jax_program(_rounded, [jax.ShapeDtypeStruct((2,), np.float32)])
  (name, module), *_ = call_modules(program).items()
  assert name.endswith("/XlaCallModule")
  again = structured(lift(module))
  assert len(again.signature.inputs) == 1 and again.signature.inputs[0].dtype == "float32"
  np.testing.assert_array_equal(again(X)[0], [0, 2])
  module.save(tmp_path / "module.zip")
  for found in (module, Module.load(tmp_path / "module.zip")):
    # The lifted code has lost `stop_gradient`, so its derivative is asked for by name.
    with pytest.raises(DerivativeError, match="function around it"):
      jax.grad(lambda x, found=found: lift(found)(x)[0].sum())(X)
    assert jax.grad(lambda x, found=found: lift(found, gradient="primal")(x)[0].sum())(X).tolist() == [0, 0]
