"""Random keys and bits of JAX's generators, which are integer arithmetic."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import random as random_extension

from graftax.convert.jax2tf.tf_ops.builder import Builder
from graftax.convert.jax2tf.tf_ops.registry import Unsupported, rule
from graftax.convert.jax2tf.tf_ops.rules._common import broadcast, full, reshape
from graftax.convert.jax2tf.tf_ops.rules._traced import traced, traced_arrays
from graftax.convert.jax2tf.tf_ops.rules.integers import bitcast
from graftax.convert.jax2tf.tf_ops.rules.shaping import positions
from graftax.convert.jax2tf.tf_ops.tensors import Shape, Tensor
from graftax.xla_call_module.lax_extras import philox_bits

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_ROUNDS = 5


@rule("threefry2x32")
def threefry2x32(b: Builder, key_0: Tensor, key_1: Tensor, x_0: Tensor, x_1: Tensor, *, outs: Any) -> list[Tensor]:
  """Returns two words of random bits for two words each of a key and a counter: Threefry of 20 rounds."""
  shape = outs[0].shape

  def add(x: Tensor, y: Tensor) -> Tensor:
    return b.op("AddV2", x, y, shape=shape)

  parity = b.op("BitwiseXor", key_0, key_1, shape=key_0.shape or key_1.shape)
  keys = [key_0, key_1, b.op("BitwiseXor", parity, full(b, parity, _PARITY), shape=parity.shape)]
  first, second = add(x_0, key_0), add(x_1, key_1)
  for number in range(_ROUNDS):
    for distance in _ROTATIONS[number % 2]:
      first = add(first, second)
      second = b.op("BitwiseXor", first, _rotated(b, second, distance), shape=shape)
    first = add(first, keys[(number + 1) % 3])
    second = add(add(second, keys[(number + 2) % 3]), full(b, second, number + 1))
  return [first, second]


def _rotated(b: Builder, x: Tensor, distance: int) -> Tensor:
  left = b.op("LeftShift", x, full(b, x, distance), shape=x.shape)
  right = b.op("RightShift", x, full(b, x, 32 - distance), shape=x.shape)
  return b.op("AddV2", left, right, shape=x.shape)  # the same, as no bit is in both


@rule("iota_2x32_shape")
def iota_2x32_shape(b: Builder, *, shape: Sequence[Any], outs: Any) -> list[Tensor]:
  """Returns the high and low words of the number of each element."""
  size = int(np.prod(shape)) if all(isinstance(n, int) for n in shape) else 0
  if size > np.iinfo(np.int32).max:
    raise Unsupported(f"random bits for {size} elements; expected fewer than 2**31")
  del outs
  total: Tensor | None = None
  for axis in range(len(shape)):
    stride = 1
    for n in shape[axis + 1 :]:
      stride = stride * n
    along = positions(b, tuple(shape), axis, np.dtype(np.int32))
    term = b.op("Mul", along, b.size(stride), shape=tuple(shape))
    total = term if total is None else b.op("AddV2", total, term, shape=tuple(shape))
  low = b.constant(np.zeros((), np.int32)) if total is None else total
  words = bitcast(b, low, np.dtype(np.uint32))
  zeros = b.op("Sub", words, words, shape=words.shape)
  return [zeros, words]


@rule("random_wrap", "random_unwrap", "random_clone", ignores=("impl",))
def same_words(b: Builder, keys: Tensor) -> Tensor:
  """Returns the words of keys."""
  del b
  return keys


@rule("random_seed")
def random_seed(b: Builder, seeds: Tensor, *, impl: Any) -> Tensor:
  """Returns the words of the keys for seeds."""
  return _of_generator(b, f"key<{getattr(impl, 'tag', 'fry')}>", lambda generator: generator.seed, [seeds], [0])


@rule("random_split")
def random_split(b: Builder, keys: Tensor, *, shape: Sequence[int], operand_dtypes: Sequence[Any]) -> Tensor:
  """Splits each key; returns the new keys as uint32 words."""
  return _of_generator(
    b, operand_dtypes[0], lambda generator: lambda key: generator.split(key, tuple(shape)), [keys], [1]
  )


@rule("random_fold_in")
def random_fold_in(b: Builder, keys: Tensor, data: Tensor, *, operand_dtypes: Sequence[Any], out: Any) -> Tensor:
  """Returns the words of keys made of keys and numbers."""
  if keys.rank > 1 and data.rank:
    keys, data = _repeated(b, keys, out.shape), _repeated(b, data, out.shape[:-1])
  return _of_generator(b, operand_dtypes[0], lambda generator: generator.fold_in, [keys, data], [1, 0])


@rule("random_bits")
def random_bits(
  b: Builder, keys: Tensor, *, bit_width: int, shape: Sequence[Any], operand_dtypes: Sequence[Any]
) -> Tensor:
  """Returns random bits."""
  return _of_generator(
    b,
    operand_dtypes[0],
    lambda generator: lambda key: generator.random_bits(key, bit_width, tuple(shape)),
    [keys],
    [1],
  )


@rule("rng_bit_generator")
def rng_bit_generator(
  b: Builder, state: Tensor, *, shape: Sequence[Any], dtype: Any, algorithm: Any
) -> Sequence[Tensor]:
  """Returns the next state of four words, and bits of Philox, which is XLA's default on CPUs and GPUs."""
  if algorithm.name == "RNG_THREE_FRY":
    raise Unsupported("bits of the algorithm RNG_THREE_FRY")
  if state.dtype != np.uint32:
    raise Unsupported(f"a state of dtype {state.dtype}; expected uint32")

  def draw(words: jax.Array) -> list[jax.Array]:
    halves = words[jnp.array([0, 2, 0])], words[jnp.array([1, 3, 1])]  # the upper half of the counter is the key
    bits, (new_low, new_high) = philox_bits(*halves, shape, dtype)
    return [jnp.stack([new_low[:2], new_high[:2]], -1).reshape(-1), bits]

  return traced_arrays(b, draw, [state])


def _repeated(b: Builder, x: Tensor, shape: Shape) -> Tensor:
  """Returns an array in a shape that it broadcasts to."""
  return broadcast(b, reshape(b, x, (*(1 for _ in range(len(shape) - x.rank)), *x.shape)), shape)


_GENERATORS = {
  f"key<{generator.tag}>": generator
  for generator in (
    random_extension.threefry_prng_impl,
    random_extension.rbg_prng_impl,
    random_extension.unsafe_rbg_prng_impl,
  )
}


def _of_generator(
  b: Builder,
  key_dtype: Any,
  function_of: Callable[[Any], Callable[..., Any]],
  operands: Sequence[Tensor],
  ranks: Sequence[int],
) -> Tensor:
  """Applies a function of the generator to each element of arrays of keys, seeds or numbers.

  Args:
    b: the builder.
    key_dtype: the dtype of the keys in JAX, which tells the generator.
    function_of: returns the function of a generator.
    operands: the arrays, keys as their words. Those with more than one element have the same axes.
    ranks: the rank of one key, seed or number in each array.
  """
  generator = _GENERATORS.get(str(key_dtype))
  if generator is None:
    raise Unsupported(f"keys of dtype {key_dtype}; expected one of {', '.join(_GENERATORS)}")
  function = function_of(generator)
  num_axes = [operand.rank - rank for operand, rank in zip(operands, ranks, strict=True)]
  for _ in range(max(num_axes)):
    # As in JAX, what is one element is not repeated: generators of batches draw all numbers from the first state.
    function = jax.vmap(function, in_axes=tuple(0 if number else None for number in num_axes))
  return traced(b, function, operands)
