import jax
import jax.numpy as jnp
import jax.scipy.special as special
import numpy as np
import pytest
from jax import lax

from graftax.xla_call_module import LiftError, Module, lift

_ONE = {"lgamma": 1, "digamma": 1, "erfc": 1, "erf_inv": 1, "bessel_i0e": 1, "bessel_i1e": 1}
_TWO = {"zeta": 2, "polygamma": 2, "igamma": 2, "igammac": 2}
_X = np.array([0.2, 0.5, 0.9], np.float32)


def _lifted(function, *specs):
  return lift(Module.from_exported(jax.export.export(jax.jit(function))(*specs)), gradient="primal")


@pytest.mark.parametrize("name", [*_ONE, *_TWO])
def test_expanded_function_is_recovered(name):
  num_args = (_ONE | _TWO)[name]
  lifted = _lifted(
    lambda *xs: getattr(lax, name)(*(x + 1.0 for x in xs)) * 2, *[jax.ShapeDtypeStruct((3,), np.float32)] * num_args
  )
  jaxpr = str(jax.make_jaxpr(lifted)(*[_X] * num_args))
  assert f"{name} " in jaxpr and len(jaxpr.splitlines()) < 25


_COMPLEX = ("exp", "log", "log1p", "sqrt", "sin", "cos", "atan", "square", "logistic")


@pytest.mark.parametrize(
  ("name", "shape"), [*((name, "3") for name in _COMPLEX), ("sqrt", "b, 2"), ("lgamma", "b"), ("igamma", "b, 2")]
)
def test_expanded_function_is_recovered_for_complex_numbers_and_open_dimensions(name, shape):
  function, dtype = getattr(lax, name), np.complex64 if name in _COMPLEX else np.float32
  num_args = _TWO.get(name, 1)
  lifted = _lifted(function, *[jax.ShapeDtypeStruct(jax.export.symbolic_shape(shape), dtype)] * num_args)
  jaxpr = str(jax.make_jaxpr(lifted)(*[jnp.ones((3, 2)[: 1 + shape.count(",")], dtype)] * num_args))
  assert f"{name} " in jaxpr or f"{name}[" in jaxpr
  assert len(jaxpr.splitlines()) < 20


def test_functions_of_static_and_of_several_open_shapes_are_recovered_in_one_module():
  a, b = jax.export.symbolic_shape("a, b")
  shapes = (a,), (3,), (2 * b,)
  specs = [jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes]
  lifted = _lifted(lambda x, y, z: (lax.lgamma(x), lax.lgamma(y), lax.erf_inv(z)), *specs)
  jaxpr = str(jax.make_jaxpr(lifted)(_X, _X, _X[:2]))
  assert jaxpr.count("lgamma ") == 2 and jaxpr.count("erf_inv ") == 1


_X0 = np.array([0, 0.5, 2], np.float32)
_OWN_DERIVATIVES = {
  "relu": (jax.nn.relu, _X0 - 0.5),
  "relu6": (jax.nn.relu6, _X0 * 3),
  "log1mexp": (jax.nn.log1mexp, _X0 + 0.1),
  "sinc": (jnp.sinc, _X0),
  "i0": (jnp.i0, _X0),
  "i0 of SciPy": (special.i0, _X0),
  "logaddexp2": (lambda x: jnp.logaddexp2(x, 2 * x), _X0),
  "zeta": (lambda x: special.zeta(x + 1.5, x + 1), _X0),
  "entr": (special.entr, _X0),
  "xlogy": (lambda x: special.xlogy(x, x + 1), _X0),
  "xlogy of a scalar": (lambda x: special.xlogy(x, 2.0), _X0),
  "xlogy that broadcasts": (lambda x: special.xlogy(x, jnp.exp(x[0])), np.stack([_X0, _X0])),
  "xlog1py": (lambda x: special.xlog1py(x, 2.0), _X0),
  "logit": (special.logit, _X0 / 2),
  "log_ndtr": (special.log_ndtr, _X0 - 30),
  "expi": (special.expi, _X0 + 0.2),
  "expn": (lambda x: special.expn(3, x), _X0 + 0.5),
  "exp1": (special.exp1, _X0 + 0.5),
  "sici": (lambda x: special.sici(x)[0], _X0 + 0.5),
  "hyp1f1": (lambda x: special.hyp1f1(0.5, 1.5, x), _X0),
  "hyp2f1": (lambda x: special.hyp2f1(0.5, 1.5, 2.0, x), _X0 / 3),
  "poch": (lambda x: special.poch(x + 1, x), _X0),
  "fresnel": (lambda x: special.fresnel(x)[0] + special.fresnel(x)[1], _X0),
  "dawsn": (lambda x: special.dawsn(x), _X0),
  "erfcx": (lambda x: special.erfcx(x), np.array([0, 1, 2], np.float32)),
  "owens_t": (lambda x: special.owens_t(x, x + 1), _X0),
  "spence": (special.spence, _X0 + 0.5),
  "integer exponents": (lambda x: x[..., None] ** jnp.arange(3), _X0),
  "an integer exponent": (lambda x: x ** jnp.int32(x.shape[0] - 3), _X0),
}


# Later JAX has these, the oldest that we support does not.
_ADDED = {"dawsn", "erfcx", "owens_t"}


@pytest.mark.parametrize("name", [name for name in _OWN_DERIVATIVES if name not in _ADDED or hasattr(special, name)])
def test_function_with_a_derivative_of_its_own_keeps_it(name):
  function, x = _OWN_DERIVATIVES[name]
  lifted = _lifted(function, jax.ShapeDtypeStruct(x.shape, x.dtype))
  np.testing.assert_allclose(lifted(x)[0], function(x), rtol=1e-5)
  got, want = (jax.grad(lambda x, f=f: f(x).sum())(x) for f in (lambda x: lifted(x)[0], function))
  np.testing.assert_allclose(got, want, rtol=1e-4)


def test_second_derivative_of_exp1():
  x = np.array([0.3, 1, 4], np.float32)
  lifted = _lifted(special.exp1, jax.ShapeDtypeStruct(x.shape, x.dtype))
  got = jax.grad(lambda x: jax.grad(lambda x: lifted(x)[0].sum())(x).sum())(x)
  np.testing.assert_allclose(got, np.exp(-x) * (1 + 1 / x) / x, rtol=1e-5)


def test_nextafter_passes_the_derivative_of_its_first_argument():
  lifted = _lifted(lambda x: lax.nextafter(x, 3 * x) * x, jax.ShapeDtypeStruct((3,), np.float32))
  np.testing.assert_allclose(jax.grad(lambda x: lifted(x)[0].sum())(_X), 2 * _X, rtol=1e-5)


def test_maximum_with_zero_is_not_relu():
  x = np.array([-1, 0, 2], np.float32)
  lifted = _lifted(lambda x: jnp.maximum(x, 0), jax.ShapeDtypeStruct(x.shape, x.dtype))
  np.testing.assert_array_equal(jax.grad(lambda x: lifted(x)[0].sum())(x), [0, 0.5, 1])


def test_derivatives_of_sigmoid_and_softplus_at_zero_and_where_they_are_saturated():
  def function(x):
    return jax.nn.silu(x) + jax.nn.sigmoid(x * 2) + jax.nn.softplus(x) + jnp.logaddexp(x, x * 3)

  x = np.array([-200, -100, 0, 100], np.float32)
  lifted = _lifted(function, jax.ShapeDtypeStruct((4,), np.float32))
  got, want = (jax.grad(lambda x, f=f: f(x).sum())(x) for f in (lambda x: lifted(x)[0], function))
  np.testing.assert_allclose(got, want, atol=1e-6)


def test_derivative_of_complex_functions_where_their_expansion_has_a_wrong_one():
  def total(z):
    parts = jnp.exp(z), jnp.sin(z) * jnp.exp(z.imag * 1j), jnp.square(z), jnp.log(z + 1), jnp.sqrt(z + 2)
    return sum((part.real + 2 * part.imag).sum() for part in parts)

  z = np.array([0, 0.9, -0.5, 0.9j, -2 + 1j, 1 + 1j, 0.3 - 0.3j], np.complex64)
  lifted = _lifted(total, jax.ShapeDtypeStruct(z.shape, z.dtype))
  np.testing.assert_allclose(jax.grad(lambda z: lifted(z)[0])(z), jax.grad(total)(z), rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, np.float16])
def test_narrow_floats_are_recovered(dtype):
  lifted = _lifted(lax.lgamma, jax.ShapeDtypeStruct((3,), dtype))
  assert "lgamma " in str(jax.make_jaxpr(lifted)(_X.astype(dtype)))


@pytest.mark.parametrize(
  ("name", "dtype"),
  [("lgamma", np.float64), ("lgamma", np.float32), ("sqrt", np.complex128), ("igamma", np.float32)],
)
def test_module_of_another_x64_mode_is_recovered(name, dtype):
  num_args = _TWO.get(name, 1)
  with jax.enable_x64(True):
    spec = jax.ShapeDtypeStruct((7,), dtype)
    exported = jax.export.export(jax.jit(getattr(lax, name)))(*[spec] * num_args)
  lifted = lift(Module.from_exported(exported), x64="enable", gradient="primal")
  with jax.enable_x64(True):
    assert f"{name} " in str(jax.make_jaxpr(lambda *xs: lifted(*xs))(*[np.ones(7, dtype)] * num_args))


@pytest.mark.parametrize("dtype", [np.float32, jnp.bfloat16])
def test_arcsine_has_its_derivative_at_the_ends(dtype):
  x = np.array([-1, -0.5, 1], dtype)
  lifted = _lifted(lax.asin, jax.ShapeDtypeStruct(x.shape, dtype))
  gradient = jax.grad(lambda x: lifted(x)[0].sum())(x)
  np.testing.assert_allclose(gradient, jax.grad(lambda x: lax.asin(x).sum())(x))


def test_recovered_function_inside_a_loop():
  def function(x):
    return lax.scan(lambda c, a: (c + lax.erf_inv(a), c), jnp.float32(0), x)[0]

  lifted = _lifted(function, jax.ShapeDtypeStruct((3,), np.float32))
  np.testing.assert_allclose(jax.grad(lambda x: lifted(x)[0])(_X), jax.grad(function)(_X), rtol=1e-5)


def test_expression_that_differs_in_one_constant_is_left_alone():
  exported = jax.export.export(jax.jit(lax.erf_inv))(jax.ShapeDtypeStruct((3,), np.float32))
  text = exported.mlir_module()
  assert "1.50140941" in text
  lifted = lift(Module.from_text(text.replace("1.50140941", "1.50140953")))
  assert "erf_inv" not in str(jax.make_jaxpr(lifted)(_X))


def test_data_for_the_host_is_not_left_out_beside_a_recovered_function():
  text = jax.export.export(jax.jit(lax.erf_inv))(jax.ShapeDtypeStruct((3,), np.float32)).mlir_module()
  begin = text.index("\n", text.index("func.func public @main"))
  sent = """
    %sent = stablehlo.create_token : !stablehlo.token
    %token = "stablehlo.outfeed"(%arg0, %sent) : (tensor<3xf32>, !stablehlo.token) -> !stablehlo.token"""
  with pytest.raises(LiftError, match="stablehlo.outfeed"):
    lift(Module.from_text(text[:begin] + sent + text[begin:]))(_X)


@pytest.mark.parametrize("name", ["relu", "_where", "_where_1"])
@pytest.mark.parametrize("kind", ["()", "!stablehlo.token"])
def test_function_that_has_the_name_of_a_known_one_and_no_array_as_result_is_left_alone(name, kind):
  result, returned = ("", "return") if kind == "()" else ("%r = ", f"return %t : {kind}")
  text = f"""
  func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> {{
    %l = stablehlo.log %x : tensor<3xf32>
    %m = stablehlo.multiply %x, %l : tensor<3xf32>
    {result}func.call @{name}(%m) : (tensor<3xf32>) -> {kind}
    %y = stablehlo.add %x, %x : tensor<3xf32>
    return %y : tensor<3xf32>
  }}
  func.func private @{name}(%x: tensor<3xf32>) -> {kind} {{
    %t = stablehlo.create_token : !stablehlo.token
    {returned}
  }}"""
  np.testing.assert_array_equal(lift(Module.from_text(text))(_X)[0], _X + _X)


def test_function_that_has_the_name_of_a_known_one_and_a_token_among_its_arguments_is_left_alone():
  text = """
  func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> {
    %t = stablehlo.create_token : !stablehlo.token
    %y = func.call @expn(%t, %x) : (!stablehlo.token, tensor<3xf32>) -> tensor<3xf32>
    return %y : tensor<3xf32>
  }
  func.func private @expn(%t: !stablehlo.token, %x: tensor<3xf32>) -> tensor<3xf32> {
    %y = stablehlo.add %x, %x : tensor<3xf32>
    return %y : tensor<3xf32>
  }"""
  np.testing.assert_array_equal(lift(Module.from_text(text))(_X)[0], _X + _X)


def test_constant_of_a_known_expansion_in_a_call_without_results_is_left_alone():
  text = """
  func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> {
    %c = stablehlo.constant dense<3.25> : tensor<3xf32>
    func.call @nothing(%c) : (tensor<3xf32>) -> ()
    %y = stablehlo.add %x, %c : tensor<3xf32>
    return %y : tensor<3xf32>
  }
  func.func private @nothing(%x: tensor<3xf32>) {
    return
  }"""
  np.testing.assert_array_equal(lift(Module.from_text(text))(_X)[0], _X + np.float32(3.25))
