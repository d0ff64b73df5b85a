"""Networks for TF.js and TFLite: which ops they need, and what they compute."""

import jax
import numpy as np
import pytest

from graftax.convert import jax_program
from graftax.savedmodel_io import save
from graftax.testing.jax_functions.networks import NETWORKS
from graftax.testing.plain_ops.tfjs_ops import ops_of, tfjs_ops

pytestmark = pytest.mark.tensorflow


def _spec(network, size=None):
  batch = jax.export.symbolic_shape("batch")[0] if size is None else size
  return jax.ShapeDtypeStruct((batch, *network.example), network.dtype)


# The converter to TF.js leaves assertions out; those are of the sizes of arguments.
_LEFT_OUT = {"Assert"}


@pytest.mark.parametrize("name", NETWORKS)
def test_every_op_is_one_of_tfjs(name):
  network = NETWORKS[name]
  params = network.parameters()
  options = {"params": params, "lowering": "tf_ops"}
  program = jax_program(network.apply, [_spec(network)], gradient_order=0, **options)
  assert ops_of(program) - tfjs_ops() == _LEFT_OUT
  # A registered gradient adds an IdentityN node to the forward pass, and no other op.
  assert ops_of(jax_program(network.apply, [_spec(network)], gradient_order=1, **options)) - tfjs_ops() == _LEFT_OUT


@pytest.mark.parametrize("name", NETWORKS)
def test_values_and_gradients_in_a_written_model(name, tmp_path):
  import tensorflow as tf

  network = NETWORKS[name]
  params = network.parameters()
  save(tmp_path / "model", (network.apply, _spec(network)), params, lowering="tf_ops", gradient_order=1)
  loaded = tf.saved_model.load(str(tmp_path / "model"))

  def total(params, x):
    return sum((y**2).sum() for y in jax.tree.leaves(network.apply(params, x)))

  for size in (1, 7):
    x = network.batch(size)
    with tf.GradientTape() as tape:
      found = tf.nest.flatten(loaded(x))
      loss = tf.add_n([tf.reduce_sum(y**2) for y in found])
    for ours, theirs in zip(found, jax.tree.leaves(network.apply(params, x)), strict=True):
      np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    leaves, structure = jax.tree.flatten(params)
    variables = jax.tree.leaves(jax.tree.unflatten(structure, _in_order(loaded.params, params)))
    gradients = tape.gradient(loss, variables)
    expected = jax.tree.leaves(jax.grad(total)(params, x))
    assert len(leaves) == len(gradients)
    for ours, theirs in zip(gradients, expected, strict=True):
      np.testing.assert_allclose(tf.convert_to_tensor(ours), theirs, rtol=1e-3, atol=1e-4)


def _in_order(loaded, params):
  """Returns the loaded variables in the order of the flat parameters."""
  found = []
  for path, _ in jax.tree_util.tree_leaves_with_path(params):
    value = loaded
    for key in path:
      value = value[getattr(key, "key", getattr(key, "idx", None))]
    found.append(value)
  return found


# TensorFlow: "tf.lite.Interpreter is deprecated", in favour of a package that is not installed here.
@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated:UserWarning")
@pytest.mark.slow
@pytest.mark.parametrize("lowering", ["stablehlo", "tf_ops"])
@pytest.mark.parametrize("name", NETWORKS)
def test_tflite_runs_the_model(name, lowering, tmp_path):
  import tensorflow as tf

  network = NETWORKS[name]
  params = network.parameters()
  save(tmp_path / "model", (network.apply, _spec(network, 2)), params, lowering=lowering, gradient_order=0)
  converter = tf.lite.TFLiteConverter.from_saved_model(str(tmp_path / "model"))
  interpreter = tf.lite.Interpreter(model_content=converter.convert())
  run = interpreter.get_signature_runner()
  x = network.batch(2)
  (name_of_input,) = run.get_input_details()
  found = run(**{name_of_input: x})
  expected = jax.tree.leaves(network.apply(params, x))
  for ours, theirs in zip((found[key] for key in sorted(found)), expected, strict=True):
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
