import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax

from graftax.xla_call_module import ArgumentError, LiftError, Module, ShapeAssertionError, embed, lift

_ROWS = {
  "mean": lambda x: (x - x.mean(0)) / x.shape[0],
  "flatten": lambda x: jnp.concatenate([x.reshape(-1), jnp.ones(x.shape[0])]),
  "arange": lambda x: x + jnp.arange(x.shape[0])[:, None],
  "pad": lambda x: jnp.pad(x, ((0, x.shape[0]), (0, 0))),
  "take": lambda x: jnp.take(x, jnp.array([0, 1]), axis=0) + x[jnp.arange(2)],
  "gram": lambda x: jnp.tanh(x @ x.T),
  "softmax": lambda x: jax.nn.softmax(x),
  "scan": lambda x: lax.scan(lambda c, a: (c + a.sum(), c), 0.0, x)[1],
  "cumsum": lambda x: jnp.cumsum(x, 0),
  "sort": lambda x: jnp.sort(x, 0),
  "top_k": lambda x: lax.top_k(x, 2)[0],
  "floor_half": lambda x: x[: x.shape[0] // 2] * 2,
  "scan_over_rows": lambda x: lax.scan(
    lambda c, a: (jnp.tanh(c + a), c), jnp.zeros((3, x.shape[0])), jnp.broadcast_to(x.T, (4, 3, x.shape[0]))
  )[1],
  "qr": lambda x: jnp.linalg.qr(x[:, :, None] * x[:, None, :] + 2 * jnp.eye(3))[1],
  "segment_sum": lambda x: jax.ops.segment_sum(x, jnp.zeros(x.shape[0], int), 3),
}


def _module(function, spec="b, 3"):
  return Module.from_exported(
    export.export(jax.jit(function))(jax.ShapeDtypeStruct(export.symbolic_shape(spec), np.float32))
  )


@pytest.mark.parametrize("name", list(_ROWS))
def test_polymorphic_module_runs_for_any_static_shape(name):
  function = _ROWS[name]
  module = _module(function)
  assert module.is_polymorphic
  lifted, opaque = lift(module, gradient="primal"), embed(module, gradient="primal")
  for rows in (2, 5):
    x = np.sin(np.arange(rows * 3, dtype=np.float32)).reshape(rows, 3)
    want = jax.jit(function)(x)
    np.testing.assert_allclose(lifted(x)[0], want, rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(opaque(x)[0], want, rtol=2e-5, atol=1e-6)

  def total(f):
    return jax.jit(jax.grad(lambda x: jnp.sum(f(x) ** 2)))

  np.testing.assert_allclose(total(lambda x: lifted(x)[0])(x), total(function)(x), rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("name", list(_ROWS))
def test_lifted_polymorphic_function_exports_with_symbolic_shapes_again(name):
  again = _module(lift(_module(_ROWS[name]), gradient="primal"))
  x = np.cos(np.arange(12, dtype=np.float32)).reshape(4, 3)
  np.testing.assert_allclose(lift(again, gradient="primal")(x)[0], jax.jit(_ROWS[name])(x), rtol=2e-5, atol=1e-6)


def test_computed_dimensions_stay_known():
  module = _module(lambda x: x[: x.shape[0] // 2] + x[-1], "2*b, 3")
  x = np.arange(12, dtype=np.float32).reshape(4, 3)
  np.testing.assert_array_equal(lift(module, gradient="primal")(x)[0], x[:2] + x[-1])


def test_shape_assertion_that_fails_says_why_and_can_be_disabled():
  module = _module(jnp.negative, "2*b, 3")
  x = np.ones((3, 3), np.float32)
  with pytest.raises(ShapeAssertionError, match=r"Division had remainder 1 when computing the value of 'b'"):
    lift(module)(x)
  np.testing.assert_array_equal(lift(module, check_shapes=False)(x)[0], -x)


def test_random_numbers_of_polymorphic_shape():
  module = _module(lambda x: x + jax.random.normal(jax.random.key(3), x.shape))
  x = np.zeros((4, 3), np.float32)
  np.testing.assert_allclose(lift(module)(x)[0], jax.random.normal(jax.random.key(3), (4, 3)), rtol=1e-5)


def test_batched_decomposition_of_open_batch_size():
  def function(x):
    return jnp.linalg.cholesky(x @ x.swapaxes(-1, -2) + 3 * jnp.eye(3))

  module = _module(function, "b, 3, 3")
  x = np.sin(np.arange(18, dtype=np.float32)).reshape(2, 3, 3)
  np.testing.assert_allclose(lift(module, gradient="primal")(x)[0], function(x), rtol=1e-5)


def test_static_module_rejects_symbolic_shapes():
  module = Module.from_exported(export.export(jax.jit(jnp.mean))(jax.ShapeDtypeStruct((3,), np.float32)))
  with pytest.raises(ArgumentError, match=r"got float32\[b\], the module takes float32\[3\]"):
    _module(lift(module), "b")


_ON_SIZE = """module {{ func.func public @main(%x: tensor<?xf32>) -> tensor<i32> {{
  %size = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %c = stablehlo.constant dense<{constant}> : tensor<i32>
  {op}
  %t = stablehlo.constant dense<10> : tensor<i32>
  %f = stablehlo.constant dense<20> : tensor<i32>
  %r = stablehlo.select %p, %t, %f : tensor<i1>, tensor<i32>
  return %r : tensor<i32> }} }}"""
_COMPARE = "%p = stablehlo.compare {}, %size, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>"
_ROUNDED = """%low = stablehlo.subtract %size, %c : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %q = stablehlo.{} %low, %two : tensor<i32>
  %want = stablehlo.constant dense<-1> : tensor<i32>
  %p = stablehlo.compare EQ, %q, %want : (tensor<i32>, tensor<i32>) -> tensor<i1>"""


@pytest.mark.parametrize(
  "op, constant, holds",
  [
    (_COMPARE.format("EQ"), 1, lambda size: size == 1),
    (_COMPARE.format("NE"), 2, lambda size: size != 2),
    (_COMPARE.format("EQ"), 0, lambda size: False),
    (_COMPARE.format("NE"), 0, lambda size: True),
    (_COMPARE.format("LT"), 2, lambda size: size < 2),
    ("%d = stablehlo.subtract %size, %c : tensor<i32>\n  %p = stablehlo.convert %d : (tensor<i32>) -> tensor<i1>", 2,
     lambda size: size != 2),
    (_ROUNDED.format("divide"), 4, lambda size: size in (1, 2)),
    (_ROUNDED.format("remainder"), 4, lambda size: size in (1, 3)),
  ],
  ids=["eq", "ne", "never equal", "always different", "lt", "to bool", "divide", "remainder"],
)  # fmt: skip
def test_decision_on_a_symbolic_size_is_made_for_the_size_of_the_call(op, constant, holds):
  lifted = lift(Module.from_text(_ON_SIZE.format(op=op, constant=constant)))
  again = export.export(jax.jit(lifted))(jax.ShapeDtypeStruct(export.symbolic_shape("b"), np.float32))
  for size in (1, 2, 3, 5):
    want = 10 if holds(size) else 20
    assert int(lifted(np.ones(size, np.float32))[0]) == want
    assert int(again.call(np.ones(size, np.float32))[0]) == want


def test_assertion_that_symbolic_sizes_leave_open_is_recorded():
  text = """module { func.func public @main(%x: tensor<?xf32>) -> tensor<?xf32> {
    %size = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
    %c = stablehlo.constant dense<2> : tensor<i32>
    %p = stablehlo.compare EQ, %size, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.custom_call @shape_assertion(%p, %size) {
      error_message = "size is {0}", has_side_effect = true} : (tensor<i1>, tensor<i32>) -> ()
    return %x : tensor<?xf32> } }"""
  lifted = lift(Module.from_text(text))
  with pytest.raises(ShapeAssertionError, match="size is 3"):
    lifted(np.ones(3, np.float32))
  export.export(jax.jit(lifted))(jax.ShapeDtypeStruct(export.symbolic_shape("b"), np.float32))
  assert [record.kind for record in lifted.records] == ["shape assertion"]


def test_attributes_that_a_dynamic_custom_call_does_not_declare_do_not_lift():
  text = """module {{ func.func public @main(%x: tensor<5xf32>) -> tensor<2xf32> {{
    %k = stablehlo.constant dense<2> : tensor<i32>
    %r:2 = stablehlo.custom_call @stablehlo.dynamic_top_k(%x, %k) {{{attributes}}} :
      (tensor<5xf32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
    return %r#0 : tensor<2xf32> }} }}"""
  x = np.float32([3, 1, 4, 1, 5])
  np.testing.assert_array_equal(lift(Module.from_text(text.format(attributes="api_version = 1 : i32")))(x)[0], [5, 4])
  with pytest.raises(LiftError, match="largest = False"):
    lift(Module.from_text(text.format(attributes="largest = false")))(x)


def test_approximate_top_k_of_a_symbolic_size_is_jax_own():
  # Known sizes are written as another call.
  spec = jax.ShapeDtypeStruct(export.symbolic_shape("b + 4"), np.float32)
  exported = export.export(jax.jit(lambda x: lax.approx_max_k(x, x.shape[0] - 4)))(spec)
  assert "stablehlo.dynamic_approx_top_k" in exported.mlir_module()
  x = np.sin(np.arange(7, dtype=np.float32))
  for got, want in zip(lift(Module.from_exported(exported))(x), lax.approx_max_k(x, 3), strict=True):
    np.testing.assert_array_equal(got, want)
