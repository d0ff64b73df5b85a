"""Random numbers from seeds that are arguments, against TensorFlow, with 64-bit types on and off."""

import functools

import jax
import numpy as np
import pytest
import tensorflow as tf

from graftax.convert import InputError, convert_functional
from graftax.ops_jax import as_int64_pair

_random = tf.random
_PHILOX = "philox"
_SEEDS = {
  "int32": [np.array(seed, np.int32) for seed in ([0, 0], [1, 2], [-1, -(2**31)], [2**31 - 1, -7])],
  "int64": [
    np.array(seed, np.int64)
    for seed in ([0, 0], [5, -7], [2**31, -(2**31) - 1], [-(2**63), 2**63 - 1], [2**40 + 5, -7])
  ],
}
_DRAWS = {
  "uniform": lambda seed, alg: _random.stateless_uniform([7], seed, alg=alg),
  "uniform float16": lambda seed, alg: _random.stateless_uniform([7], seed, dtype=tf.float16, alg=alg),
  "uniform bfloat16": lambda seed, alg: _random.stateless_uniform([7], seed, dtype=tf.bfloat16, alg=alg),
  "integers": lambda seed, alg: _random.stateless_uniform([3, 2], seed, -3, 1000, tf.int32, alg=alg),
  "wide integers": lambda seed, alg: _random.stateless_uniform([5], seed, -(2**40), 2**41, tf.int64, alg=alg),
  "narrow int64": lambda seed, alg: _random.stateless_uniform([5], seed, -9, 9, tf.int64, alg=alg),
  "full int32": lambda seed, alg: _random.stateless_uniform([5], seed, None, None, tf.int32, alg=alg),
  "full uint32": lambda seed, alg: _random.stateless_uniform([5], seed, None, None, tf.uint32, alg=alg),
  "full int64": lambda seed, alg: _random.stateless_uniform([5], seed, None, None, tf.int64, alg=alg),
  "full uint64": lambda seed, alg: _random.stateless_uniform([5], seed, None, None, tf.uint64, alg=alg),
  "split": lambda seed, alg: _random.stateless_uniform([3], _random.split(seed, 3, alg=alg)[1], alg=alg),
  "fold_in": lambda seed, alg: _random.stateless_uniform([3], _random.fold_in(seed, seed[0], alg=alg), alg=alg),
}
# Logarithms, sines and cosines differ in last bits.
_CLOSE = {
  "normal": lambda seed, alg: _random.stateless_normal([7], seed, alg=alg),
  "truncated normal": lambda seed, alg: _random.stateless_truncated_normal([7], seed, alg=alg),
}
_V1 = {
  "shuffle": lambda seed: _random.experimental.stateless_shuffle(tf.range(9), seed),
  "shuffle philox": lambda seed: _random.experimental.stateless_shuffle(tf.range(9), seed, alg=_PHILOX),
  "dropout": lambda seed: tf.nn.experimental.stateless_dropout(tf.ones([9]), 0.5, seed, rng_alg=_PHILOX),
  "categorical": lambda seed: _random.stateless_categorical(tf.constant([[0.0, 1, 2]]), 5, seed),
  "binomial": lambda seed: _random.stateless_binomial([5], seed, 9.0, 0.3),
  "poisson": lambda seed: _random.stateless_poisson([5], seed, 4.0, tf.int32),
  "v1 uniform": lambda seed: tf.raw_ops.StatelessRandomUniform(shape=[5], seed=seed),
  "v1 integers": lambda seed: tf.raw_ops.StatelessRandomUniformInt(shape=[5], seed=seed, minval=0, maxval=99),
  "v1 full": lambda seed: tf.raw_ops.StatelessRandomUniformFullInt(shape=[5], seed=seed, dtype=tf.uint64),
  "key": lambda seed: tf.raw_ops.StatelessRandomGetKeyCounter(seed=seed)[0],
  "counter": lambda seed: tf.raw_ops.StatelessRandomGetKeyCounterAlg(seed=seed)[1],
}
_V1_CLOSE = {
  "gamma": lambda seed: _random.stateless_gamma([4], seed, 2.0),
  "v1 normal": lambda seed: tf.raw_ops.StatelessRandomNormal(shape=[5], seed=seed),
  "v1 truncated": lambda seed: tf.raw_ops.StatelessTruncatedNormal(shape=[5], seed=seed),
}


def _program(alg, seed):
  if alg is None:
    return {name: draw(seed) for name, draw in {**_V1, **_V1_CLOSE}.items()}
  return {name: draw(seed, alg) for name, draw in {**_DRAWS, **_CLOSE}.items()}


@functools.cache
def _wanted(alg, dtype):
  # The CPU has no kernels of ThreeFry; XLA has.
  draw = tf.function(functools.partial(_program, alg), autograph=False, jit_compile=alg == "threefry")
  return [{k: v.numpy() for k, v in draw(tf.constant(seed)).items()} for seed in _SEEDS[dtype]]


def _compare(got, want, mode):
  for name, value in want.items():
    value_type = np.float32 if value.dtype == tf.bfloat16.as_numpy_dtype else value.dtype
    compared = np.asarray(got[name]).astype(value_type), value.astype(value_type)
    if name in _CLOSE or name in _V1_CLOSE:
      np.testing.assert_allclose(*compared, rtol=3e-6, atol=3e-6, err_msg=f"{mode}: {name}")
    else:
      np.testing.assert_array_equal(*compared, err_msg=f"{mode}: {name}")


# With 64-bit types on, seeds of both dtypes take the same way.
@pytest.mark.parametrize(("dtype", "x64"), [("int64", False), ("int64", True), ("int32", False)])
@pytest.mark.parametrize("alg", [_PHILOX, "auto_select", "threefry", None])
def test_numbers_of_a_traced_seed_are_those_of_tensorflow(alg, dtype, x64):
  want, seeds = _wanted(alg, dtype), _SEEDS[dtype]
  function = tf.function(functools.partial(_program, alg), autograph=False)
  with jax.enable_x64(x64):
    converted = convert_functional(function, seeds[0])
    together = np.stack(seeds)
    # As numpy arrays these are refused, or cut by JAX on their way into `jit`, which nobody can notice.
    batch = as_int64_pair(together) if dtype == "int64" and not x64 else together
    batched = jax.jit(jax.vmap(converted))(batch)
    eager = converted(jax.tree.map(lambda x: x[-1], batch))
  _compare(eager, want[-1], "eager")
  for i, seed in enumerate(seeds):
    _compare({name: np.asarray(value)[i] for name, value in batched.items()}, want[i], f"vmap, seed {seed}")


def _in_a_loop(seed):
  for i in tf.range(3):
    seed = tf.random.fold_in(seed, tf.cast(i, tf.int64) + seed[1])
  return tf.random.stateless_uniform([3], seed)


def _in_a_loop_of_unknown_length(seed):
  count = 0
  while count < tf.cast(seed[1], tf.int32):
    seed = tf.random.fold_in(seed, tf.cast(count, tf.int64) + seed[1])
    count += 1
  return tf.random.stateless_uniform([3], seed)


def _in_a_branch(seed):
  if seed[1] > 0:
    seed = tf.random.split(seed, 2)[1]
  return tf.random.stateless_uniform([3], seed, alg=_PHILOX)


@pytest.mark.parametrize("draw", [_in_a_loop, _in_a_loop_of_unknown_length, _in_a_branch])
@pytest.mark.parametrize("seed", [[1, 3], [2**40, 2]])
def test_seeds_that_become_words_in_control_flow(draw, seed):
  seed = np.array(seed)
  function = tf.function(draw)
  with jax.enable_x64(False):
    converted = jax.jit(convert_functional(function, seed))
    got = converted(as_int64_pair(seed))
    small = converted(seed) if seed.max() < 2**31 else got
  np.testing.assert_array_equal(got, function(tf.constant(seed)).numpy())
  np.testing.assert_array_equal(small, got)


def test_a_numpy_seed_beyond_32_bits_raises_with_its_name():
  function = tf.function(lambda seed: tf.random.stateless_uniform([3], seed), autograph=False)
  with jax.enable_x64(False):
    converted = convert_functional(function, np.array([1, 2]))
    with pytest.raises(InputError, match=r"'seed'.*1099511627776.*as_int64_pair"):
      converted(np.array([2**40, 2]))
