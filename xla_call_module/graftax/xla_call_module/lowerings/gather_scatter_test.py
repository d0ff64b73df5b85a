import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.xla_call_module import DerivativeError, LiftError, Module, embed, lift


def _scatter(body: str, unique: bool = False) -> Module:
  return Module.from_text(f"""module {{
    func.func public @main(%x: tensor<5xf32>, %i: tensor<3x1xi32>, %u: tensor<3xf32>)
      -> tensor<5xf32> {{
    %r = "stablehlo.scatter"(%x, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
        scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = {str(unique).lower()}}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      {body}
      stablehlo.return %s : tensor<f32>
    }}) : (tensor<5xf32>, tensor<3x1xi32>, tensor<3xf32>) -> tensor<5xf32>
    return %r : tensor<5xf32> }} }}""")


_X, _U = np.arange(5, dtype=np.float32), np.array([10, 20, 30], np.float32)
_I = np.array([[1], [3], [7]], np.int32)
_OWN = """%t = stablehlo.multiply %a, %b : tensor<f32>
      %s = stablehlo.subtract %t, %b : tensor<f32>"""


def test_update_out_of_bounds_is_dropped():
  got = lift(_scatter("%s = stablehlo.add %a, %b : tensor<f32>"))(_X, _I, _U)[0]
  np.testing.assert_array_equal(got, [0, 11, 2, 23, 4])
  negative = np.array([[-1], [0], [4]], np.int32)
  got = lift(_scatter("%s = stablehlo.add %a, %b : tensor<f32>"))(_X, negative, _U)[0]
  np.testing.assert_array_equal(got, [20, 1, 2, 3, 34])


def test_reducer_of_its_own_gives_the_value_and_rejects_a_derivative():
  function = lift(_scatter(_OWN))
  np.testing.assert_array_equal(function(_X, _I, _U)[0], [0, 0, 2, 40, 4])
  with pytest.raises(DerivativeError, match=r"stablehlo\.scatter at .*none of update, add"):
    jax.grad(lambda x: function(x, _I, _U)[0].sum())(_X)


def test_reducer_of_its_own_with_unique_indices_differentiates():
  function = lift(_scatter(_OWN, unique=True))
  np.testing.assert_array_equal(function(_X, _I, _U)[0], [0, 0, 2, 40, 4])
  gradient = jax.grad(lambda x, u: function(x, _I, u)[0].sum(), (0, 1))(_X, _U)
  np.testing.assert_array_equal(gradient[0], [1, 10, 1, 20, 1])
  np.testing.assert_array_equal(gradient[1], [0, 2, 0])


@pytest.mark.parametrize("updates", [[10, 20, 30], [0, 20, 30], [0, 0, 30]])
@pytest.mark.parametrize("indices", [[1, 1, 3], [1, 1, 1], [2, 7, 2]])
def test_products_at_indices_that_repeat_have_the_derivatives_of_single_products(updates, indices):
  function = lift(_scatter("%s = stablehlo.multiply %a, %b : tensor<f32>"))

  def one_by_one(x, u):
    for k, i in enumerate(indices):
      x = jnp.asarray(x).at[i].multiply(u[k]) if i < 5 else x
    return x

  at, weights = np.int32(indices)[:, None], np.arange(1, 6, dtype=np.float32)
  u = np.float32(updates)
  np.testing.assert_array_equal(function(_X, at, u)[0], one_by_one(_X, u))
  ours, theirs = (lambda x, u, f=f: (weights * f(x, u)).sum() for f in (lambda x, u: function(x, at, u)[0], one_by_one))
  orders = [lambda f: jax.grad(f, (0, 1)), lambda f: jax.jacfwd(f, (0, 1))]
  if u.all():  # the second derivative of a product with zeros is not exact
    orders.append(lambda f: jax.hessian(f, (0, 1)))
  for order in orders:
    got, want = jax.jit(order(jax.jit(ours)))(_X, u), order(theirs)(_X, u)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
      np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


def test_gather_clamps_its_start():
  text = """module { func.func public @main(%x: tensor<5xf32>, %i: tensor<3x1xi32>) -> tensor<3x2xf32> {
    %r = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], start_index_map = [0],
        index_vector_dim = 1>, slice_sizes = array<i64: 2>}> : (tensor<5xf32>, tensor<3x1xi32>) -> tensor<3x2xf32>
    return %r : tensor<3x2xf32> } }"""
  got = lift(Module.from_text(text))(_X, np.array([[-4], [1], [9]], np.int32))[0]
  np.testing.assert_array_equal(got, [[0, 1], [1, 2], [3, 4]])


def _scatter_two(body: str, unique: bool = False) -> Module:
  return Module.from_text(f"""module {{ func.func public @main(%x: tensor<5xf32>, %y: tensor<5xi1>, %i: tensor<3x1xi32>,
      %u: tensor<3xf32>, %v: tensor<3xi1>) -> (tensor<5xf32>, tensor<5xi1>) {{
    %r:2 = "stablehlo.scatter"(%x, %y, %i, %u, %v) <{{unique_indices = {str(unique).lower()},
        scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
        index_vector_dim = 1>}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<i1>, %c: tensor<f32>, %d: tensor<i1>):
      {body}
      stablehlo.return %s, %t : tensor<f32>, tensor<i1>
    }}) : (tensor<5xf32>, tensor<5xi1>, tensor<3x1xi32>, tensor<3xf32>, tensor<3xi1>)
      -> (tensor<5xf32>, tensor<5xi1>)
    return %r#0, %r#1 : tensor<5xf32>, tensor<5xi1> }} }}""")


_FLAGS, _NEW = np.array([True, False, True, False, True]), np.array([True, False, True])
_APART = """%s = stablehlo.subtract %a, %c : tensor<f32>
      %t = stablehlo.or %b, %d : tensor<i1>"""
_MIXED = """%t = stablehlo.compare GT, %c, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %s = stablehlo.select %d, %c, %a : tensor<i1>, tensor<f32>"""


@pytest.mark.parametrize("body, unique", [(_APART, False), (_APART, True), (_MIXED, True)])
def test_several_operands_scatter_as_xla_does(body, unique):
  module = _scatter_two(body, unique)
  indices = _I if unique else np.array([[1], [1], [7]], np.int32)
  arguments = (_X, _FLAGS, indices, _U - 18, _NEW)
  for got, want in zip(lift(module)(*arguments), embed(module)(*arguments), strict=True):
    np.testing.assert_array_equal(got, want)


def test_several_operands_that_mix_at_indices_that_repeat_raise():
  with pytest.raises(LiftError, match="mixes several operands, and its indices are not unique"):
    lift(_scatter_two(_MIXED))(_X, _FLAGS, _I, _U, _NEW)
