"""Smoke test of the wheel, run where only its declared dependencies can be imported. Not shipped."""

import jax
import numpy as np

from graftax.xla_call_module import Module, lift

exported = jax.export.export(jax.jit(lambda x: x * x))(jax.ShapeDtypeStruct((), np.float32))
square = lift(Module.from_exported(exported))
assert float(jax.grad(lambda x: square(x)[0])(3.0)) == 6.0
