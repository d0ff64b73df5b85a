"""Writes SavedModels with jax2tf, with inputs, results and gradients beside them. Runs alone, without graftax.

python make_models.py FOLDER
"""

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tensorflow as tf
from jax import lax
from jax.experimental import jax2tf

F32 = jnp.float32
_ROWS = np.random.default_rng(0)


def _x(*shape: int) -> np.ndarray:
  return _ROWS.uniform(-1, 1, shape).astype(np.float32)


def _dense(x: jax.Array) -> jax.Array:
  return jax.nn.gelu(x @ _W1 + 0.1) @ _W2


def _convolution(x: jax.Array) -> jax.Array:
  y = lax.conv_general_dilated(
    x, jax.numpy.asarray(_KERNEL), (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
  )
  return jax.nn.relu(y).mean((1, 2))


def _recurrent(x: jax.Array) -> jax.Array:
  def step(carry: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
    carry = jnp.tanh(row @ _W1[:8, :8] + carry)
    return carry, carry.sum(-1)

  return lax.scan(step, jnp.zeros((x.shape[0], 8), F32), jnp.swapaxes(x, 0, 1))[1]


def _attention(x: jax.Array) -> jax.Array:
  scores = jnp.einsum("bsd,btd->bst", x @ _W1[:8, :8], x)
  return jax.nn.softmax(scores / 3.0) @ x


@jax.custom_vjp
def _clipped(x: jax.Array) -> jax.Array:
  return x * x


_clipped.defvjp(lambda x: (x * x, x), lambda x, g: (jnp.clip(g * 2 * x, -0.5, 0.5),))


def _until_large(x: jax.Array) -> jax.Array:
  return lax.while_loop(lambda s: s[0].sum() < 100, lambda s: (s[0] * 1.5 + 1, s[1] + 1), (jnp.abs(x), 0))[0]


def _spd(x: jax.Array) -> jax.Array:
  return x @ x.T + 5 * jnp.eye(x.shape[0])


def _random(x: jax.Array) -> jax.Array:
  return x + jax.random.uniform(jax.random.key(3), x.shape)


_WITH_GRADIENTS = tf.saved_model.SaveOptions(experimental_custom_gradients=True)
_W1, _W2 = _x(16, 32), _x(32, 4)
_KERNEL = _x(3, 3, 3, 8)

# name -> (function, inputs, polymorphic shapes, options of jax2tf.convert)
_FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...], Any, dict[str, Any]]] = {
  "dense": (_dense, (_x(3, 16),), None, {}),
  "dense_open_batch": (_dense, (_x(3, 16),), ["b, 16"], {}),
  "convolution": (_convolution, (_x(2, 8, 8, 3),), ["b, 8, 8, 3"], {}),
  "recurrent": (_recurrent, (_x(2, 5, 8),), ["b, 5, 8"], {}),
  "attention_open_sequence": (_attention, (_x(2, 5, 8),), ["b, s, 8"], {}),
  "two_open_inputs": (lambda x, y: x * y[:, None] + x.shape[0], (_x(3, 4), _x(3)), ["n, 4", "n"], {}),
  "sum_of_sizes": (lambda x, y: jnp.concatenate([x, y]) * 2.0, (_x(3), _x(4)), ["n", "m"], {}),
  "custom_gradient": (_clipped, (_x(6),), None, {}),
  "without_gradient": (lambda x: jnp.sin(x), (_x(6),), None, {"with_gradient": False}),
  "cuda_only": (lambda x: jnp.tanh(x) @ _W1, (_x(2, 16),), None, {"native_serialization_platforms": ("cuda",)}),
  "cpu_and_cuda": (lambda x: jnp.cos(x) + 1, (_x(5),), None, {"native_serialization_platforms": ("cpu", "cuda")}),
  "eigh": (lambda x: jnp.linalg.eigh(_spd(x))[0], (_x(4, 4),), None, {}),
  "cholesky_and_qr": (lambda x: jnp.linalg.cholesky(_spd(x)) + jnp.linalg.qr(x)[1] * 0, (_x(4, 4),), None, {}),
  "solve": (lambda x, y: jnp.linalg.solve(_spd(x), y), (_x(4, 4), _x(4, 2)), None, {}),
  "while_loop": (_until_large, (_x(4),), None, {"with_gradient": False}),
  "sort_and_top_k": (lambda x: jnp.sort(x, -1) + lax.top_k(x, 3)[0].sum(-1, keepdims=True), (_x(3, 6),), None, {}),
  "random": (_random, (_x(7),), None, {}),
  "fft": (lambda x: jnp.abs(jnp.fft.rfft(x)), (_x(2, 16),), None, {}),
  "cumulative": (lambda x: jnp.cumsum(x, 1) * jnp.cumprod(x, 1), (_x(2, 6),), ["b, 6"], {}),
  "gather_and_scatter": (
    lambda x: jnp.asarray(x).at[:, 1].add(3.0)[:, jnp.array([0, 1, 1, 2])], (_x(3, 4),), ["b, 4"], {},
  ),
}  # fmt: skip


def _module(name: str) -> tuple[tf.Module, dict[str, Any], tuple[np.ndarray, ...]]:
  """Returns a model with a signature of keyword arguments x0, x1, ..., its signatures, and the inputs."""
  function, inputs, shapes, options = _FUNCTIONS[name]
  converted = jax2tf.convert(function, polymorphic_shapes=shapes, **options)
  specs = [tf.TensorSpec(_open_shape(shapes, i, x), x.dtype, f"x{i}") for i, x in enumerate(inputs)]
  module = tf.Module()
  module.f = tf.function(lambda *args: {"y": converted(*args)}, autograph=False, input_signature=specs)
  signatures = {"serving_default": module.f}
  if name == "dense":  # with a second signature and a variable
    module.scale = tf.Variable(2.0)
    module.g = tf.function(lambda x: {"y": converted(x) * module.scale}, autograph=False, input_signature=specs)
    signatures["scaled"] = module.g
  return module, signatures, inputs


def _open_shape(shapes: list[str] | None, i: int, x: np.ndarray) -> list[int | None]:
  dims = shapes[i].split(",") if shapes else ["0"] * x.ndim
  return [n if dim.strip().isdigit() else None for dim, n in zip(dims, x.shape, strict=True)]


def _reference(name: str, inputs: tuple[np.ndarray, ...]) -> Iterator[tuple[str, np.ndarray]]:
  function, _, _, options = _FUNCTIONS[name]
  yield "y", np.asarray(function(*inputs))
  if options.get("with_gradient", True):
    gradients = jax.grad(lambda *args: function(*args).sum(), argnums=tuple(range(len(inputs))))(*inputs)
    yield from ((f"gradient_{i}", np.asarray(gradient)) for i, gradient in enumerate(gradients))


def main(folder: str) -> None:
  for name in _FUNCTIONS:
    path = os.path.join(folder, name)
    try:
      module, signatures, inputs = _module(name)
      tf.saved_model.save(module, path, signatures=signatures, options=_WITH_GRADIENTS)
      given = {f"x{i}": x for i, x in enumerate(inputs)}
      arrays: dict[str, Any] = {**given, **dict(_reference(name, inputs))}
      np.savez(path + ".npz", **arrays)
      print(name, "written", flush=True)
    except Exception as e:
      print(name, "not written:", type(e).__name__, str(e)[:200].replace("\n", " "), flush=True)


if __name__ == "__main__":
  main(sys.argv[1])
