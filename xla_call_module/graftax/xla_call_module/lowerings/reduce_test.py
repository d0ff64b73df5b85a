import jax
import jax.numpy as jnp
import numpy as np

from graftax.xla_call_module import Module, lift

_ARGMAX = """module {{ func.func public @main(%x: tensor<4xf32>) -> tensor<i32> {{
  %i = {index}
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.reduce(%x init: %low), (%i init: %zero) across dimensions = [0] :
      (tensor<4xf32>, tensor<4xi32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
   reducer(%a: tensor<f32>, %c: tensor<f32>) (%b: tensor<i32>, %d: tensor<i32>) {{
    %2 = stablehlo.compare GT, %a, %c, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %3 = stablehlo.compare NE, %a, %a, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %4 = stablehlo.or %2, %3 : tensor<i1>
    %5 = stablehlo.compare EQ, %a, %c, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %6 = stablehlo.compare LT, %b, %d, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %7 = stablehlo.and %5, %6 : tensor<i1>
    %8 = stablehlo.or %4, %7 : tensor<i1>
    %9 = stablehlo.select %4, %a, %c : tensor<i1>, tensor<f32>
    %10 = stablehlo.select %8, %b, %d : tensor<i1>, tensor<i32>
    stablehlo.return %9, %10 : tensor<f32>, tensor<i32>
  }}
  return %r#1 : tensor<i32> }} }}"""


def _argmax(index: str) -> Module:
  return Module.from_text(_ARGMAX.format(index=index))


def test_argmax_over_an_iota_is_argmax():
  function = lift(_argmax("stablehlo.iota dim = 0 : tensor<4xi32>"))
  x = np.array([1, 7, 7, 3], np.float32)
  assert "argmax" in str(jax.make_jaxpr(function)(x))
  assert int(function(x)[0]) == 1


def test_argmax_over_other_labels_gives_the_label():
  function = lift(_argmax("stablehlo.constant dense<[9, 8, 5, 4]> : tensor<4xi32>"))
  x = np.array([1, 7, 2, 3], np.float32)
  assert "argmax" not in str(jax.make_jaxpr(function)(x))
  assert int(function(x)[0]) == 8


def _reduce(body: str, init: str = "0.0") -> Module:
  return Module.from_text(f"""module {{ func.func public @main(%x: tensor<3x4xf32>) -> tensor<3xf32> {{
    %i = stablehlo.constant dense<{init}> : tensor<f32>
    %r = stablehlo.reduce(%x init: %i) across dimensions = [1] : (tensor<3x4xf32>, tensor<f32>) -> tensor<3xf32>
     reducer(%a: tensor<f32>, %b: tensor<f32>) {{
      {body}
      stablehlo.return %s : tensor<f32>
    }}
    return %r : tensor<3xf32> }} }}""")


_X = np.linspace(0.5, 2.0, 12).reshape(3, 4).astype(np.float32)


def test_initial_value_other_than_the_identity_counts():
  function = lift(_reduce("%s = stablehlo.add %a, %b : tensor<f32>", "10.0"))
  np.testing.assert_allclose(function(_X)[0], _X.sum(1) + 10, rtol=1e-6)


def test_reducer_of_its_own_has_value_batch_and_derivatives():
  body = """%t = stablehlo.multiply %a, %b : tensor<f32>
      %u = stablehlo.add %a, %b : tensor<f32>
      %s = stablehlo.add %t, %u : tensor<f32>"""

  def function(x):
    return lift(_reduce(body))(x)[0]

  def wanted(x):
    return jnp.prod(x + 1, axis=1) - 1  # a + b + ab is (a + 1)(b + 1) - 1

  np.testing.assert_allclose(function(_X), wanted(_X), rtol=1e-5)
  np.testing.assert_allclose(jax.vmap(function)(_X[None])[0], wanted(_X), rtol=1e-5)
  got, want = (jax.jacrev(f)(_X) for f in (function, wanted))
  np.testing.assert_allclose(got, want, rtol=1e-4)
  got, want = (jax.hessian(lambda x, f=f: f(x).sum())(_X) for f in (function, wanted))
  np.testing.assert_allclose(got, want, rtol=1e-4)


def test_maximum_of_booleans_is_or():
  text = """module { func.func public @main(%x: tensor<4xi1>) -> tensor<i1> {
    %i = stablehlo.constant dense<false> : tensor<i1>
    %r = stablehlo.reduce(%x init: %i) applies stablehlo.maximum across dimensions = [0]
        : (tensor<4xi1>, tensor<i1>) -> tensor<i1>
    return %r : tensor<i1> } }"""
  assert bool(lift(Module.from_text(text))(np.array([False, True, False, False]))[0])


def _reduce_all(body: str, size: int) -> Module:
  return Module.from_text(f"""module {{
    func.func public @main(%x: tensor<{size}xf32>, %i: tensor<f32>) -> tensor<f32> {{
    %r = "stablehlo.reduce"(%x, %i) <{{dimensions = array<i64: 0>}}> ({{ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      {body}
      stablehlo.return %s : tensor<f32> }}) : (tensor<{size}xf32>, tensor<f32>) -> tensor<f32>
    return %r : tensor<f32> }} }}""")


def test_empty_maximum_passes_the_derivative_to_its_initial_value():
  function = lift(_reduce_all("%s = stablehlo.maximum %a, %b : tensor<f32>", 0))
  value, gradient = jax.value_and_grad(lambda i: function(np.zeros(0, np.float32), i)[0])(np.float32(2))
  assert (float(value), float(gradient)) == (2.0, 1.0)


def test_derivative_of_a_reducer_that_does_not_commute_keeps_the_order():
  function = lift(_reduce_all("%s = stablehlo.minimum %b, %b : tensor<f32>", 5))  # the last element
  x = np.arange(5, dtype=np.float32)
  value, gradient = jax.value_and_grad(lambda x: function(x, np.float32(0))[0])(x)
  assert float(value) == 4.0
  np.testing.assert_array_equal(gradient, [0, 0, 0, 0, 1])


def test_reducer_in_a_wider_type_than_its_operand():
  # The specification allows it; XLA does not run it.
  text = """module { func.func public @main(%x: tensor<3xi8>) -> tensor<i32> {
    %z = stablehlo.constant dense<0> : tensor<i32>
    %r = "stablehlo.reduce"(%x, %z) <{dimensions = array<i64: 0>}> ({ ^bb0(%a: tensor<i32>, %b: tensor<i32>):
      %s = stablehlo.add %a, %b : tensor<i32>
      stablehlo.return %s : tensor<i32> }) : (tensor<3xi8>, tensor<i32>) -> tensor<i32>
    return %r : tensor<i32> } }"""
  assert int(lift(Module.from_text(text))(np.full(3, 100, np.int8))[0]) == 300


def _promoted(constant: str = "") -> Module:
  """Returns a sum of bfloat16 numbers in float32, whose initial value is an argument or a constant."""
  argument = "" if constant else ", %i: tensor<bf16>"
  return Module.from_text(f"""func.func @main(%x: tensor<600xbf16>{argument}) -> tensor<f32> {{
    {constant}
    %r = "stablehlo.reduce"(%x, %i) <{{dimensions = array<i64: 0>}}> ({{ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32> }}) : (tensor<600xbf16>, tensor<bf16>) -> tensor<f32>
    return %r : tensor<f32> }}""")


def test_reducer_in_a_wider_type_than_its_initial_value_too():
  x, init = np.ones(600, jnp.bfloat16), np.array(0.5, jnp.bfloat16)  # bfloat16 cannot represent the sum
  function, constant = lift(_promoted()), lift(_promoted("%i = stablehlo.constant dense<0.5> : tensor<bf16>"))
  for got in (function(x, init)[0], constant(x)[0]):
    np.testing.assert_array_equal(got, np.float32(600.5), strict=True)
  gradients = jax.grad(lambda *given: function(*given)[0], (0, 1))(x, init)
  for gradient, like in zip(gradients, (x, init), strict=True):
    np.testing.assert_array_equal(gradient, np.ones_like(like), strict=True)
