"""Writes the model that the tests on accelerators run, and what TensorFlow computes with it on a CPU.

    python -m graftax.tools.artifacts.device_models testing/graftax/testing/testdata/2026_11_23

A new run goes to a new dated folder beside the old ones. `model` is a SavedModel with one signature for each family of
ops, `module.mlirbc` a StableHLO module, and `goldens.npz` their inputs, outputs and gradients:
`<signature>/input/<name>`, `<signature>/output/<name>` and `<signature>/gradient/<name>`. Gradients are those of
`weighted_sum` of the outputs.
"""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from graftax.tools._tensorflow import TensorFlow, TfTensor

__all__ = ["main"]

_Arrays = dict[str, np.ndarray]


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("folder", type=Path, help="new folder to write to")
  folder = parser.parse_args().folder
  import tensorflow as tf

  folder.mkdir(parents=True)
  random = np.random.default_rng(0)
  functions = _functions(tf, random)
  inputs = _inputs(random)
  module = tf.Module()
  module.parameters = _variables
  signatures = {}
  goldens: _Arrays = {}
  for name, function in functions.items():
    specs = {key: tf.TensorSpec(value.shape, value.dtype, key) for key, value in inputs[name].items()}
    signatures[name] = tf.function(function).get_concrete_function(**specs)
    goldens |= {f"{name}/{key}": value for key, value in _results(tf, signatures[name], inputs[name]).items()}
  tf.saved_model.save(module, str(folder / "model"), signatures)
  (folder / "model/fingerprint.pb").unlink()
  goldens |= _write_stablehlo(tf, folder / "module.mlirbc", random)
  np.savez_compressed(folder / "goldens.npz", allow_pickle=False, **goldens)


def _results(tf: TensorFlow, function: Any, inputs: Mapping[str, np.ndarray]) -> _Arrays:
  """Returns inputs, outputs, and the gradients for the inputs that have one."""
  with tf.GradientTape() as tape:
    tensors = {name: tf.constant(value) for name, value in inputs.items()}
    tape.watch([tensor for tensor in tensors.values() if tensor.dtype.is_floating])
    outputs = function(**tensors)
    total = tf.add_n([_weighted_sum(tf, y) for y in outputs.values() if y.dtype.is_floating] or [tf.constant(0.0)])
  gradients = tape.gradient(total, tensors)
  results = {f"input/{name}": value for name, value in inputs.items()}
  results |= {f"output/{name}": _plain(tf, tensor) for name, tensor in outputs.items()}
  return results | {f"gradient/{name}": _plain(tf, g) for name, g in gradients.items() if g is not None}


def _plain(tf: TensorFlow, tensor: TfTensor) -> np.ndarray:
  """Returns an array of a type that .npz files hold."""
  value = tf.cast(tensor, tf.float32) if tensor.dtype == tf.bfloat16 else tf.convert_to_tensor(tensor)
  return np.asarray(value.numpy())


def _weighted_sum(tf: TensorFlow, y: TfTensor) -> TfTensor:
  """A scalar with another derivative for each element."""
  flat = tf.reshape(tf.cast(y, tf.float32), [-1])
  return tf.reduce_sum(flat * tf.cos(tf.range(tf.size(flat), dtype=tf.float32)))


_variables: list[TfTensor] = []


def _variable(tf: TensorFlow, random: np.random.Generator, name: str, *shape: int) -> TfTensor:
  _variables.append(tf.Variable(random.normal(0, 0.4, shape).astype(np.float32), name=name))
  return _variables[-1]


def _inputs(random: np.random.Generator) -> dict[str, _Arrays]:
  def normal(*shape: int) -> np.ndarray:
    return random.normal(size=shape).astype(np.float32)

  return {
    "dense": {"x": normal(4, 8)},
    "convolution": {"x": normal(2, 8, 8, 3)},
    "attention": {"x": normal(2, 5, 8)},
    "recurrent": {"x": normal(2, 6, 4)},
    "branches": {"x": normal(3), "n": np.array(5, np.int32)},
    "indexing": {"x": normal(6, 4), "rows": np.array([5, 0, 2, 2], np.int32)},
    "sorting": {"x": normal(3, 7)},
    "spectral": {"x": normal(4, 8)},
    "linear_algebra": {"x": normal(3, 4, 4)},
    "integers": {"a": np.array([7, -7, 9, -9, 2**31 - 1], np.int32), "b": np.array([2, 2, -4, -4, 3], np.int32)},
    "random": {"seed": np.array([3, 14], np.int32)},
    "half": {"x": normal(4, 8)},
  }


def _functions(tf: TensorFlow, random: np.random.Generator) -> dict[str, Callable[..., dict[str, TfTensor]]]:
  return {
    "dense": _dense(tf, random),
    "convolution": _convolution(tf, random),
    "attention": _attention(tf, random),
    "recurrent": _recurrent(tf, random),
    "branches": _branches(tf),
    "indexing": _indexing(tf),
    "sorting": _sorting(tf),
    "spectral": _spectral(tf),
    "linear_algebra": _linear_algebra(tf),
    "integers": _integers(tf),
    "random": _random(tf),
    "half": _half(tf, random),
  }


def _dense(tf: TensorFlow, random: np.random.Generator) -> Callable[..., dict[str, TfTensor]]:
  w1, w2 = _variable(tf, random, "dense/w1", 8, 16), _variable(tf, random, "dense/w2", 16, 5)

  def dense(x: TfTensor) -> dict[str, TfTensor]:
    hidden = tf.nn.gelu(x @ w1)
    mean, variance = tf.nn.moments(hidden, [-1], keepdims=True)
    logits = (hidden - mean) * tf.math.rsqrt(variance + 1e-3) @ w2
    return {"probabilities": tf.nn.softmax(logits), "tanh": tf.tanh(logits), "erf": tf.math.erf(logits)}

  return dense


def _convolution(tf: TensorFlow, random: np.random.Generator) -> Callable[..., dict[str, TfTensor]]:
  kernel, depthwise = _variable(tf, random, "conv/kernel", 3, 3, 3, 4), _variable(tf, random, "conv/depth", 3, 3, 4, 2)
  scale, offset = _variable(tf, random, "conv/scale", 4), _variable(tf, random, "conv/offset", 4)

  def convolution(x: TfTensor) -> dict[str, TfTensor]:
    y = tf.nn.conv2d(x, kernel, strides=2, padding="SAME")
    y = tf.nn.relu6(tf.nn.batch_normalization(y, tf.zeros(4), tf.ones(4), offset, scale, 1e-3))
    y = tf.nn.depthwise_conv2d(y, depthwise, [1, 1, 1, 1], "SAME")
    pooled = tf.nn.max_pool2d(y, 2, 2, "VALID"), tf.nn.avg_pool2d(y, 3, 2, "SAME")
    return {"maximum": pooled[0], "average": pooled[1], "resized": tf.image.resize(y, [6, 5])}

  return convolution


def _attention(tf: TensorFlow, random: np.random.Generator) -> Callable[..., dict[str, TfTensor]]:
  projections = [_variable(tf, random, f"attention/{name}", 8, 2, 4) for name in "qkv"]

  def attention(x: TfTensor) -> dict[str, TfTensor]:
    q, k, v = (tf.einsum("btd,dhe->bthe", x, w) for w in projections)
    weights = tf.nn.softmax(tf.einsum("bthe,bshe->bhts", q, k) / 2.0)
    return {"y": tf.einsum("bhts,bshe->bthe", weights, v)}

  return attention


def _recurrent(tf: TensorFlow, random: np.random.Generator) -> Callable[..., dict[str, TfTensor]]:
  w, u = _variable(tf, random, "recurrent/w", 4, 12), _variable(tf, random, "recurrent/u", 4, 12)

  def recurrent(x: TfTensor) -> dict[str, TfTensor]:
    states = tf.TensorArray(tf.float32, 6)

    def step(i: TfTensor, h: TfTensor, states: TfTensor) -> tuple[TfTensor, TfTensor, TfTensor]:
      z, r, n = tf.split(x[:, i] @ w, 3, axis=-1)
      hz, hr, hn = tf.split(h @ u, 3, axis=-1)
      z, r = tf.sigmoid(z + hz), tf.sigmoid(r + hr)
      h = z * h + (1 - z) * tf.tanh(n + r * hn)
      return i + 1, h, states.write(i, h)

    _, _, states = tf.while_loop(lambda i, h, states: i < 6, step, (0, tf.zeros([2, 4]), states))
    return {"states": tf.transpose(states.stack(), [1, 0, 2])}

  return recurrent


def _branches(tf: TensorFlow) -> Callable[..., dict[str, TfTensor]]:
  def branches(x: TfTensor, n: TfTensor) -> dict[str, TfTensor]:
    _, doubled = tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * 1.5), (0, x))
    chosen = tf.cond(tf.reduce_sum(x) > 0, lambda: tf.sin(x), lambda: tf.cos(x))
    return {"loop": doubled, "cond": chosen}

  return branches


def _indexing(tf: TensorFlow) -> Callable[..., dict[str, TfTensor]]:
  def indexing(x: TfTensor, rows: TfTensor) -> dict[str, TfTensor]:
    taken = tf.gather(x, rows)
    return {
      "gathered": taken,
      "added": tf.tensor_scatter_nd_add(x, rows[:, None], taken),
      "segments": tf.math.unsorted_segment_sum(x, tf.constant([0, 2, 0, 1, 2, 2]), 3),
      "maxima": tf.math.unsorted_segment_max(x, tf.constant([0, 2, 0, 1, 2, 2]), 3),
      "one_hot": tf.one_hot(rows, 6),
      "reversed": x[::-2, 1:],
    }

  return indexing


def _sorting(tf: TensorFlow) -> Callable[..., dict[str, TfTensor]]:
  def sorting(x: TfTensor) -> dict[str, TfTensor]:
    values, positions = tf.math.top_k(x, 3)
    return {
      "sorted": tf.sort(x, direction="DESCENDING"),
      "order": tf.argsort(x, stable=True),
      "values": values,
      "positions": positions,
      "sums": tf.cumsum(x, axis=1, exclusive=True),
      "argmax": tf.argmax(x, 1, tf.int32),
    }

  return sorting


def _spectral(tf: TensorFlow) -> Callable[..., dict[str, TfTensor]]:
  def spectral(x: TfTensor) -> dict[str, TfTensor]:
    spectrum = tf.signal.rfft(x)
    return {"power": tf.abs(spectrum) ** 2, "spectrum": spectrum, "back": tf.signal.irfft(spectrum * 2.0)}

  return spectral


def _linear_algebra(tf: TensorFlow) -> Callable[..., dict[str, TfTensor]]:
  def linear_algebra(x: TfTensor) -> dict[str, TfTensor]:
    definite = x @ tf.linalg.matrix_transpose(x) + 2 * tf.eye(4)
    factor = tf.linalg.cholesky(definite)
    return {
      "factor": factor,
      "solved": tf.linalg.triangular_solve(factor, x),
      "inverse": tf.linalg.inv(definite),
      "logarithm": tf.linalg.slogdet(definite).log_abs_determinant,
      "eigenvalues": tf.linalg.eigvalsh(definite),
      "singular": tf.linalg.svd(x, compute_uv=False),
    }

  return linear_algebra


def _integers(tf: TensorFlow) -> Callable[..., dict[str, TfTensor]]:
  def integers(a: TfTensor, b: TfTensor) -> dict[str, TfTensor]:
    return {
      "floored": a // b,
      "remainder": a % b,
      "truncated": tf.truncatediv(a, b),
      "product": a * a,
      "shifted": tf.bitwise.right_shift(a, 1),
      "bits": tf.bitwise.bitwise_xor(a, b),
      "counts": tf.raw_ops.PopulationCount(x=a),
    }

  return integers


def _random(tf: TensorFlow) -> Callable[..., dict[str, TfTensor]]:
  def random(seed: TfTensor) -> dict[str, TfTensor]:
    return {
      "bits": tf.random.stateless_uniform([2, 5], seed, None, None, tf.int32),
      "uniform": tf.random.stateless_uniform([2, 5], seed),
      "normal": tf.random.stateless_normal([2, 5], seed),
      "shuffled": tf.random.experimental.stateless_shuffle(tf.range(9), seed),
    }

  return random


def _half(tf: TensorFlow, random: np.random.Generator) -> Callable[..., dict[str, TfTensor]]:
  weights = _variable(tf, random, "half/w", 8, 5)

  def half(x: TfTensor) -> dict[str, TfTensor]:
    y = tf.cast(x, tf.bfloat16) @ tf.cast(weights, tf.bfloat16)
    z = tf.nn.softmax(tf.cast(x, tf.float16) @ tf.cast(weights, tf.float16))
    return {"bfloat16": tf.cast(y, tf.float32), "float16": tf.cast(z, tf.float32)}

  return half


def _write_stablehlo(tf: TensorFlow, path: Path, random: np.random.Generator) -> _Arrays:
  """Writes a module and returns its inputs and the outputs of TensorFlow's XlaCallModule."""
  import jax
  import jax.numpy as jnp
  from tensorflow.compiler.tf2xla.python import xla

  def function(x: jax.Array, y: jax.Array) -> tuple[jax.Array, ...]:
    product = jnp.tanh(x @ y)
    return product, jnp.sort(product, axis=-1), jax.lax.fori_loop(0, 3, lambda i, z: jnp.cumsum(z, 1) / 2, product)

  x, y = (random.normal(size=shape).astype(np.float32) for shape in ((3, 4), (4, 5)))
  exported = jax.export.export(jax.jit(function), platforms=["cpu"])(x, y)
  data = exported.mlir_module_serialized
  path.write_bytes(data)
  results = xla.call_module(
    [x, y],
    version=exported.calling_convention_version,
    Tout=[tf.float32] * len(exported.out_avals),
    Sout=[aval.shape for aval in exported.out_avals],
    module=data,
    platforms=["CPU"],
  )
  goldens = {"stablehlo/input/0": x, "stablehlo/input/1": y}
  return goldens | {f"stablehlo/output/{i}": result.numpy() for i, result in enumerate(results)}


if __name__ == "__main__":
  main()
