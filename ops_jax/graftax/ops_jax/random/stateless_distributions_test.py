"""Stateless gamma, Poisson, binomial and categorical numbers against TensorFlow, number by number."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.ops_jax import ResourceHandle, lowering
from graftax.ops_jax._core.errors import InvalidInputError
from graftax.testing.raw_ops import NodeContext, check_raw_op, check_raw_op_rejects, raw_op

_SEED = np.array([3, 2**40 + 9])


# Each check compiles loops several times over, so that types and parameters are not multiplied with each other.
@pytest.mark.parametrize(
  ("dtype", "shape", "alpha"),
  [
    (np.float64, (7,), 2.0),
    (np.float64, (50,), 0.3),
    (np.float64, (5,), 1.0),
    (np.float64, (40, 3), [0.5, 1.0, 20.0]),
    (np.float32, (40, 3), [0.5, 1.0, 20.0]),
    (np.float16, (), 3.0),
  ],
)
def test_gamma(dtype, shape, alpha):
  inputs = [np.array(shape, np.int32), _SEED, np.array(alpha, dtype)]
  tolerance = {np.float64: (1e-12, 0), np.float32: (2e-7, 0), np.float16: (1e-3, 0)}[dtype]
  check_raw_op("StatelessRandomGammaV2", inputs, tolerance=tolerance, vmap=["seed"] if shape == (5,) else False)


def test_gamma_gradient():
  inputs = [np.array([4, 2], np.int32), _SEED, np.array([0.7, 3.0])]
  check_raw_op("StatelessRandomGammaV2", inputs, grad=["alpha"], vmap=False, grad_tolerance=(1e-6, 1e-6))


def test_gamma_from_a_key():
  import tensorflow as tf

  key, counter = (x.numpy() for x in tf.raw_ops.StatelessRandomGetKeyCounter(seed=_SEED))
  inputs = [np.array([9], np.int32), key, counter, np.int32(1), np.float64(2)]
  check_raw_op("StatelessRandomGammaV3", inputs, tolerance=(1e-12, 0), vmap=False)
  with pytest.raises(InvalidInputError, match="algorithm 2"):
    lowering("StatelessRandomGammaV3").function((9,), key, counter, 2, np.float64(2), dtype=np.dtype(np.float64))


def test_a_shape_that_does_not_end_in_the_parameters_raises():
  check_raw_op_rejects("StatelessRandomGammaV2", [np.array([3], np.int32), _SEED, np.ones(2)], match="(2,)")


@pytest.mark.parametrize(
  ("dtype", "shape", "lam"),
  [
    (np.int32, (50,), 3.0),
    (np.float64, (50,), 30.0),
    (np.int64, (30, 3), [0.2, 9.9, 500.0]),
    (np.float32, (), 4.0),
    (np.float16, (4,), 4.0),
  ],
)
def test_poisson(dtype, shape, lam):
  inputs = [np.array(shape, np.int32), _SEED, np.array(lam)]
  check_raw_op("StatelessRandomPoisson", inputs, {"dtype": dtype}, vmap=["seed"] if shape == () else False)


@pytest.mark.parametrize("rate", [np.float16, np.int64])
def test_poisson_rates(rate):
  inputs = [np.array([6, 2], np.int32), _SEED, np.array([3, 20]).astype(rate)]
  check_raw_op("StatelessRandomPoisson", inputs, {"dtype": np.float32}, vmap=False)


@pytest.mark.parametrize(
  ("dtype", "counts", "probs"),
  [
    (np.int64, 10.0, 0.3),
    (np.float64, 100.0, 0.3),
    (np.int32, 100.0, 0.9),
    (np.float32, 7.0, 0.8),
    (np.int64, [5.0, 1000.0], [0.5, 0.02]),
    (np.int64, 0.0, 0.5),
  ],
)
def test_binomial(dtype, counts, probs):
  inputs = [np.array([40, 2], np.int32), _SEED, np.array(counts), np.array(probs)]
  check_raw_op("StatelessRandomBinomial", inputs, {"dtype": dtype}, vmap=["seed"] if counts == 10.0 else False)


@pytest.mark.parametrize(("shape", "counts"), [((9,), np.float64(20)), ((3, 2), np.array([5.0, 60.0]))])
def test_binomial_from_a_generator(shape, counts):
  import tensorflow as tf

  state = np.array([5, 6, 7])
  # From a list: of a variable that shares an array's memory, TensorFlow's kernel at times advances a copy.
  variable, handle = tf.Variable(state.tolist(), dtype=tf.int64), ResourceHandle("generator")
  want = tf.raw_ops.StatefulRandomBinomial(
    resource=variable.handle, algorithm=np.int64(1), shape=shape, counts=counts, probs=np.float64(0.4)
  ).numpy()
  context = NodeContext(state={handle: state})
  with jax.enable_x64(True):
    got = lowering("StatefulRandomBinomial").function(context, handle, 1, shape, counts, np.float64(0.4))
  np.testing.assert_array_equal(got, want, strict=True)
  np.testing.assert_array_equal(context.state[handle], variable.numpy(), strict=True)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("output_dtype", [np.int32, np.int64])
def test_multinomial(dtype, output_dtype):
  logits = np.array([[0, 1, 2, 0], [3, 0, 0, 1], [-9, 5, 5, -9]]).astype(dtype)
  inputs = [logits, np.int32(13), _SEED]
  check_raw_op("StatelessMultinomial", inputs, {"output_dtype": output_dtype}, vmap=["seed"])


def test_multinomial_leaves_out_what_is_not_finite():
  logits = np.array([[0.0, -np.inf, 1.0, np.nan]])
  check_raw_op("StatelessMultinomial", [logits, np.int32(20), _SEED], vmap=False)


def test_without_64_bit_types_nearly_all_numbers_are_the_same():
  case = raw_op(
    "StatelessRandomPoisson",
    [np.array([2000, 2], np.int32), np.array([1, 2]), np.array([3.0, 30.0])],
    {"dtype": np.int32},
  )
  want = case.oracle(case.inputs)[0].numpy()
  with jax.enable_x64(False):
    (got,) = jax.jit(case.run)(jnp.array([1, 2]), jnp.array([3.0, 30.0]))
  assert np.mean(np.asarray(got) != want) < 1e-3


def test_parameterized_truncated_normal_has_the_distribution():
  stats = pytest.importorskip("scipy.stats")
  draw = lowering("StatelessParameterizedTruncatedNormal").function
  for mean, deviation, low, high in ((0, 1, -1, 2), (3, 2, 4, 9), (0, 1, 3, 5), (0, 1, -np.inf, 0.5)):
    parameters = [np.float32(p) for p in (mean, deviation, low, high)]
    numbers = np.asarray(draw((4000,), np.array([1, 2]), *parameters, dtype=np.dtype(np.float32)))
    assert numbers.min() >= low and numbers.max() <= high
    expected = stats.truncnorm((low - mean) / deviation, (high - mean) / deviation, loc=mean, scale=deviation)
    assert stats.kstest(numbers, expected.cdf).pvalue > 1e-3


def test_binomial_of_invalid_parameters():
  counts = np.array([-1, -20, 10, 10, 50, 50, -np.inf, 10, 0], np.float32)
  probs = np.array([0.5, 0.7, -1, 2, -0.5, 1.5, 0.5, np.nan, 0.5], np.float32)
  shape, seed = np.array([2, 9], np.int32), np.array([1, 2], np.int32)
  check_raw_op("StatelessRandomBinomial", [shape, seed, counts, probs], {"dtype": np.float32}, vmap=False)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32])
def test_poisson_of_invalid_rates(dtype):
  rates = np.array([-1, 0, np.inf, -np.inf, 3], np.float32)
  shape, seed = np.array([2, 5], np.int32), np.array([1, 2], np.int32)
  check_raw_op("StatelessRandomPoisson", [shape, seed, rates], {"dtype": dtype}, vmap=False)
