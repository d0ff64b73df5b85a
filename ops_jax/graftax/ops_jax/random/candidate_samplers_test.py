"""Candidate samplers: expected counts against TensorFlow, frequencies against the distributions."""

import jax
import numpy as np
import pytest

from graftax.graphdef_ir import GraftaxError
from graftax.ops_jax import lowering
from graftax.testing.raw_ops import NodeContext, raw_op

pytestmark = pytest.mark.tensorflow

_TRUE = np.array([[1, 4], [3, 0]])
_UNIGRAMS = [1.0, 2.0, 3.0, 0.5, 2.5]
_ATTRS = {
  "UniformCandidateSampler": {"range_max": 6},
  "LogUniformCandidateSampler": {"range_max": 6},
  "FixedUnigramCandidateSampler": {"range_max": 6, "unigrams": _UNIGRAMS, "num_reserved_ids": 1, "distortion": 0.7},
}


def _case(op, num_sampled, unique):
  return raw_op(op, [_TRUE], {**_ATTRS[op], "num_true": 2, "num_sampled": num_sampled, "unique": unique, "seed": 1})


def _run(case, seed, jit=True):
  run = lambda key: case.run(_TRUE, context=NodeContext(key=key))  # noqa: E731
  with jax.enable_x64(True):
    return jax.device_get((jax.jit(run) if jit else run)(jax.random.key(seed)))


@pytest.mark.parametrize("op", sorted(_ATTRS))
def test_repeated_classes_have_the_frequencies_and_counts_of_tensorflow(op):
  case = _case(op, 5000, False)
  classes, true_count, count = _run(case, 0)
  want_classes, want_true, want_count = case.oracle(case.inputs)
  assert (classes.dtype, classes.shape, count.dtype) == (np.int64, (5000,), np.float32)
  np.testing.assert_allclose(true_count, want_true, rtol=1e-4)
  by_class = {c: float(n) for c, n in zip(want_classes.numpy(), want_count.numpy(), strict=True)}
  for drawn, expected in by_class.items():
    np.testing.assert_allclose(count[classes == drawn], expected, rtol=1e-4)
    assert abs(np.sum(classes == drawn) - expected) < 5 * np.sqrt(expected)
  assert set(classes) == set(by_class)


@pytest.mark.parametrize("op", sorted(_ATTRS))
def test_distinct_classes(op):
  case = _case(op, 4, True)
  want = np.array([[float(x) for x in case.oracle(case.inputs)[1].numpy().ravel()] for _ in range(400)]).mean(0)
  found = [_run(case, seed, jit=seed > 0) for seed in range(2)]
  key = jax.random.split(jax.random.key(3), 400)
  with jax.enable_x64(True):
    many = jax.device_get(jax.jit(jax.vmap(lambda k: case.run(_TRUE, context=NodeContext(key=k))))(key))
  assert all(len(set(row)) == 4 for row in [*many[0], *(f[0] for f in found)])
  np.testing.assert_allclose(many[1].mean(0).ravel(), want, atol=0.03)


def test_all_classes():
  case = raw_op("AllCandidateSampler", [_TRUE], {"num_true": 2, "num_sampled": 5, "unique": True})
  for got, want in zip(case.run(_TRUE), case.oracle(case.inputs), strict=True):
    np.testing.assert_array_equal(got, want)


def test_too_many_distinct_classes_and_files_are_refused():
  context = NodeContext(key=jax.random.key(0))
  with pytest.raises(GraftaxError, match="7 different classes of 6"):
    attrs = {"range_max": 6, "num_true": 2, "num_sampled": 7, "unique": True}
    lowering("UniformCandidateSampler").function(context, _TRUE, **attrs)
  attrs = {"range_max": 6, "num_true": 2, "num_sampled": 2, "unique": False}
  with pytest.raises(GraftaxError, match="vocab_file='words.txt'"):
    lowering("FixedUnigramCandidateSampler").function(context, _TRUE, vocab_file="words.txt", **attrs)
  with pytest.raises(GraftaxError, match="range_max=6"):
    lowering("FixedUnigramCandidateSampler").function(context, _TRUE, unigrams=(1.0,), **attrs)
