"""Models that call StableHLO, written with JAX's jax2tf and with graftax. Needs a release that both know."""

from __future__ import annotations

from typing import Any

import numpy as np

from graftax.tools.artifacts.golden.recorder import Arrays, Recorder, TensorFlow, floats

__all__ = ["WRITERS"]

_X = floats([[1.0, -2.0, 0.5]])
_W = floats([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


def _f(params: Arrays, x: Arrays) -> Arrays:
  import jax.numpy as jnp

  return {"y": jnp.tanh(x @ params["w"]), "total": jnp.sum(x)}


def _expected() -> Arrays:
  return {"y": np.tanh(_X @ _W), "total": np.sum(_X)}


def _jax2tf(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  from jax.experimental import jax2tf

  platforms = ["cuda"] if "cuda" in name else None
  converted = jax2tf.convert(
    _f, polymorphic_shapes=[None, "b, _"], with_gradient="cuda" not in name, native_serialization_platforms=platforms
  )
  module = tf.Module()
  module.params = {"w": tf.Variable(_W, name="w")}
  spec = tf.TensorSpec([None, 3], tf.float32, name="x")
  module.f = tf.function(lambda x: converted(module.params, x), autograph=False, input_signature=[spec])
  tf.saved_model.save(module, recorder.path(name), {"serving_default": module.f})
  options = {"other_platform": True} if platforms else {}  # type: dict[str, Any]
  recorder.model(name, {"x": _X}, _expected(), **options)


def _graftax(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  import jax

  from graftax import savedmodel_io

  spec = jax.ShapeDtypeStruct(jax.export.symbolic_shape("batch, 3"), np.float32)
  lowering: Any = "tf_ops" if name.endswith("tf_ops") else "stablehlo"
  function = savedmodel_io.JaxFunction(_f, [spec])
  savedmodel_io.save(recorder.path(name), function, {"w": _W}, lowering=lowering)
  loaded = tf.saved_model.load(recorder.path(name))
  recorder.model(name, [_X], dict(loaded(_X)), entry="__call__", structure="function")


WRITERS = {
  "stablehlo_jax2tf": _jax2tf,
  "stablehlo_jax2tf_cuda": _jax2tf,
  "stablehlo_graftax": _graftax,
  "graftax_tf_ops": _graftax,
}
