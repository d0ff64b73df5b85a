"""Rules for bounded sizes that come with a user's lowering."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.graphdef_ir import Budget, Node, OpArg, OpSignature, TensorRef
from graftax.ops_jax import (
  BoundedArray,
  BoundedRule,
  IntegerFacts,
  LoweringOptions,
  StaticInputError,
  bind,
  bounded_rule,
  lowering,
  ops_with_bounded_sizes,
  ops_with_max_size,
  register,
)
from graftax.ops_jax._core import registry

_X = np.array([3.0, 1.0, 2.0], np.float32)


def _total(call, inputs):
  return [call.marked(call.run_one(call.filled(inputs[0], 0)), *inputs)]


def _kept(call, inputs):
  mask = call.filled(inputs[0], 0) != 0
  (positions,) = jnp.nonzero(mask, size=call.max_size() or mask.size, fill_value=0)
  return [call.made(positions, [jnp.sum(mask)], may_overflow=True)]


@pytest.fixture(scope="module", autouse=True)
def _ops():
  @register("UserTotal", bounded=BoundedRule(_total))
  def _user_total(x):
    return jnp.sum(x)

  @register("UserDouble", bounded="elementwise")
  def _user_double(x):
    return x * 2

  @register("UserKept", bounded=BoundedRule(_kept, makes=True, has_max_size=True))
  def _user_kept(x):
    if isinstance(x, jax.core.Tracer):
      raise StaticInputError("x is traced")
    return np.nonzero(x)[0]

  @register("UserPlain")
  def _user_plain(x):
    return x + 1


def _run(op, length, **options):
  """Returns what the node returns under `jit` for the first `length` elements of `_X`."""
  inputs = (TensorRef("x"),)
  kernel = bind(Node("y", op, inputs), OpSignature(op, (OpArg("x", 1),), (OpArg("y", 1),)), lowering(op))

  def call(x, length):
    context = SimpleNamespace(facts=IntegerFacts(), options=LoweringOptions(**options), budget=Budget())
    return kernel.run(context, [x if length is None else BoundedArray(x, (length,), True)])[0]

  return jax.jit(call)(_X, None if length is None else np.int32(length))


@pytest.mark.parametrize("length", [0, 2, 3])
def test_the_padding_does_not_count(length):
  assert _run("UserTotal", length) == _X[:length].sum()


def test_data_beyond_the_bound_is_marked():
  assert np.isnan(_run("UserTotal", 4))


def test_an_elementwise_op_keeps_the_length():
  np.testing.assert_array_equal(_run("UserDouble", 2).cut(), _X[:2] * 2)


def test_a_rule_can_make_a_bounded_size():
  assert "UserKept" in ops_with_max_size()
  np.testing.assert_array_equal(_run("UserKept", 2).cut(), [0, 1])
  np.testing.assert_array_equal(_run("UserKept", None).cut(), [0, 1, 2])
  assert _run("UserKept", None, max_sizes={"UserKept": 2}).overflowed


def test_without_a_rule_a_bounded_size_is_refused():
  assert {"UserTotal", "UserDouble", "UserPlain"} & ops_with_bounded_sizes() == {"UserTotal", "UserDouble"}
  with pytest.raises(StaticInputError, match="UserPlain node 'y'"):
    _run("UserPlain", 2)


def test_a_new_lowering_keeps_the_rule_unless_another_one_is_given():
  register("UserDouble", override=True)(lambda x: x * 3)
  np.testing.assert_array_equal(_run("UserDouble", 2).cut(), _X[:2] * 3)
  register("UserDouble", override=True, bounded=BoundedRule(_total))(lambda x: jnp.sum(x))
  assert _run("UserDouble", 2) == 4


def test_a_users_rule_replaces_the_built_in_one(monkeypatch):
  rule = BoundedRule(_total)
  monkeypatch.setitem(registry._BOUNDED_RULES, "Sum", rule)  # `register` would leave it there for other tests
  assert bounded_rule("Sum") is rule
