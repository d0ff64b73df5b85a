"""Programs of JAX functions, converted back to JAX and compared with the functions."""

import collections
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graftax.convert import ConversionError, convert_program
from graftax.convert.jax2tf.program import jax_program
from graftax.graphdef_ir import DType, validate_function

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


@jax.custom_vjp
def clipped(x):
  return jnp.sin(x)


clipped.defvjp(lambda x: (jnp.sin(x), x), lambda x, cotangent: (3 * cotangent * x**2,))


def mlp(params, x):
  hidden = clipped(x @ params["dense"]["kernel"] + params["dense"]["bias"])
  return {"logits": hidden * params["scale"], "top": hidden.argmax(-1)}


PARAMS = {
  "dense": {"kernel": np.arange(12, dtype=np.float32).reshape(3, 4) / 10, "bias": np.ones(4, np.float32)},
  "scale": np.float32(2),
}


def back(program):
  fn, variables = convert_program(program)
  return (lambda *args, **kwargs: fn(variables, *args, **kwargs)[0]), fn, variables


def test_parameters_are_variables_named_by_path():
  program = jax_program(mlp, [X], params=PARAMS)
  assert list(program.variables) == ["dense/bias", "dense/kernel", "scale"]
  assert program.variables["dense/kernel"].base is PARAMS["dense"]["kernel"] or np.shares_memory(
    program.variables["dense/kernel"], PARAMS["dense"]["kernel"]
  )
  assert [p.name for p in program.function.parameters] == ["x", "dense_bias", "dense_kernel", "scale"]
  assert program.function.parameters[2].handle_spec.shape.dims == (3, 4)
  validate_function(program.function, program.library)
  for function in program.library.values():
    validate_function(function, program.library)
  assert not any(node.op == "Const" for node in program.function.nodes)


@pytest.mark.parametrize("dtype", [jnp.int4, jnp.uint4])
def test_modules_take_and_return_whole_bytes_for_shorter_integers(dtype):
  x = jnp.arange(6).astype(dtype)
  program = jax_program(lambda p, x: (x + p["one"], x.astype(np.float32) / 2), [x], params={"one": x[1]})
  (module,) = [node for node in program.function.nodes if node.op == "XlaCallModule"]
  whole = DType.INT8 if dtype == jnp.int4 else DType.UINT8
  assert (module.attrs["Tin"], module.attrs["Tout"]) == ((whole, whole), (whole, DType.FLOAT))
  # XLA would misread the casts from and to shorter integers, and does not have this op.
  assert [node.op for node in program.function.nodes].count("DeepCopy") == 3
  total, half = back(program)[0](x)
  assert total.dtype == dtype
  np.testing.assert_array_equal(total.astype(int), np.arange(6) + 1)
  np.testing.assert_array_equal(half, np.arange(6) / 2)


def test_integers_that_tensorflow_cannot_cast_raise():
  with pytest.raises(ConversionError, match="int2"):
    jax_program(jnp.negative, [jax.ShapeDtypeStruct((3,), jnp.int2)])


def test_rules_that_read_values_around_them_have_no_derivative():
  def function(x):
    y = jnp.sin(x)

    @jax.custom_vjp
    def double(x):
      return x * 2

    double.defvjp(lambda x: (double(x), None), lambda _, cotangent: (cotangent * y,))
    return double(x)

  program = jax_program(function, [X])
  (refusal,) = [node for node in program.function.nodes if node.op == "PreventGradient"]
  assert b"is not among its arguments or residuals" in refusal.attrs["message"]
  np.testing.assert_allclose(back(program)[0](X), X * 2)


def test_value_and_gradients_are_those_of_the_function():
  program = jax_program(mlp, [X], params=PARAMS)
  _, fn, variables = back(program)
  named = lambda v: {"dense": {"kernel": v["dense/kernel"], "bias": v["dense/bias"]}, "scale": v["scale"]}  # noqa: E731
  found, want = fn(variables, X)[0], mlp(PARAMS, X)
  np.testing.assert_allclose(found["logits"], want["logits"], rtol=1e-6)
  np.testing.assert_array_equal(found["top"], want["top"])

  # The losses are linear in the results. Beyond order 1, JAX differentiates the forward pass of a custom rule, but a
  # program has only the rule for its results.
  def loss(v, x):
    return fn(v, x)[0]["logits"].sum()

  def true_loss(v, x):
    return mlp(named(v), x)["logits"].sum()

  variables = {name: jnp.asarray(value) for name, value in variables.items()}
  for transform in (
    lambda f: jax.grad(f, (0, 1)),
    lambda f: jax.grad(lambda v, x: jax.grad(f, 1)(v, x).sum(), (0, 1)),
  ):
    jax.tree.map(
      lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4),
      transform(loss)(variables, X),
      transform(true_loss)(variables, X),
    )


def test_symbolic_dimensions_are_open():
  b, n = jax.export.symbolic_shape("b, n")
  program = jax_program(lambda x: (x.sum(0) / x.shape[0], x.argmax(0)), [jax.ShapeDtypeStruct((b, n), np.float32)])
  assert program.inputs.specs[0].shape.dims == (None, None)
  f, _, _ = back(program)
  for shape in ((2, 3), (4, 1)):
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    np.testing.assert_allclose(f(x)[0], x.mean(0), rtol=1e-6)
    np.testing.assert_array_equal(f(x)[1], x.argmax(0))
    np.testing.assert_allclose(jax.grad(lambda x: f(x)[0].sum())(x), np.full(shape, 1 / shape[0]), rtol=1e-6)


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Batch:
  images: jax.Array
  labels: jax.Array


Pair = collections.namedtuple("Pair", "z a")


def test_structures_are_those_of_tensorflow():
  def function(batch, pair, ordered, *rest, mode=None, scale, **more):
    tenfold = collections.OrderedDict([("z", ordered["z"] * 10), ("a", ordered["a"])])
    return Batch(batch.images * scale, pair.a), [pair.z, None, rest[1]], tenfold, more

  ordered = collections.OrderedDict([("z", np.float32(5)), ("a", np.float32(6))])
  program = jax_program(
    function,
    [Batch(X, X + 1), Pair(np.float32(1), np.float32(2)), ordered, X, X + 7],
    {"scale": 3.0, "z": 8.0, "y": 9.0},
  )
  f, _, _ = back(program)
  batch = {"images": X, "labels": X + 1}
  first, second, third, more = f(
    batch, Pair(np.float32(1), np.float32(2)), dict(ordered), X, X + 7, scale=3.0, z=8.0, y=9.0
  )
  np.testing.assert_allclose(first["images"], 3 * X)
  assert first["labels"] == 2 and second[0] == 1 and second[1] is None
  np.testing.assert_allclose(second[2], X + 7)
  assert {k: float(v) for k, v in third.items()} == {"z": 50, "a": 6}
  assert {k: float(v) for k, v in more.items()} == {"z": 8, "y": 9}
  assert str(program.inputs.signature) == "(batch, pair, ordered, *rest, mode=None, scale, **more)"
  assert [spec.name for spec in program.inputs.specs][:4] == ["batch_images", "batch_labels", "pair_z", "pair_a"]


def test_arguments_by_name_may_be_passed_by_position():
  def function(x, scale=2.0, shift=1.0, table=np.ones(3, np.float32), last=0.0):  # noqa: B008
    return x * scale + shift + table + last

  program = jax_program(function, [X], {"last": 4.0})
  f, _, _ = back(program)
  assert str(program.inputs.signature) == "(x, scale=2.0, shift=1.0, *, last=0.0)"
  np.testing.assert_allclose(f(X, last=4.0), X * 2 + 1 + 1 + 4, rtol=1e-6)
  program = jax_program(function, [X], {"scale": 3.0})
  f, _, _ = back(program)
  np.testing.assert_allclose(f(X, 5.0), X * 5 + 1 + 1, rtol=1e-6)


def test_built_in_functions_have_numbered_arguments():
  class Unnamed:
    __signature__ = "none"

    def __call__(self, x, y):
      return x - y

  f, _, _ = back(jax_program(Unnamed(), [X, X + 1], name="unnamed"))
  np.testing.assert_allclose(f(X, X + 1), np.full_like(X, -1))


def test_function_without_gradient_rejects_differentiation():
  f, _, _ = back(jax_program(lambda x: x * 2, [X], with_gradient=False))
  np.testing.assert_allclose(f(X), 2 * X)
  with pytest.raises(LookupError, match="does not support gradients. Use `with_gradient`"):
    jax.grad(lambda x: f(x).sum())(X)


def test_number_of_gradients_is_the_order():
  assert len(jax_program(lambda x: x * x, [X]).gradients) == 2
  assert len(jax_program(lambda x: x * x, [X], gradient_order=1, forward_mode=True).gradients) == 2
  program = jax_program(lambda x: x * x, [X], gradient_order=3)
  assert len(program.gradients) == len(program.library) == 3
  f, _, _ = back(program)
  np.testing.assert_allclose(jax.jvp(f, (X,), (X,))[1], 2 * X * X, rtol=1e-6)
  with pytest.raises(ConversionError, match="gradient_order=-1"):
    jax_program(lambda x: x, [X], gradient_order=-1)


def test_functions_that_jax_cannot_differentiate_have_values():
  x = X + 2
  program = jax_program(lambda x: lax.igamma_grad_a(x, 2 * x), [x])
  np.testing.assert_allclose(back(program)[0](x), lax.igamma_grad_a(x, 2 * x), rtol=1e-6)
  (message,) = [node.attrs["message"] for node in program.function.nodes if node.op == "PreventGradient"]
  assert b"JAX cannot differentiate function: NotImplementedError: Differentiation rule for 'igamma_grad_a'" in message
  program = jax_program(lambda x: jax.scipy.special.gammainc(x, 2 * x), [x])  # the second order is missing in JAX
  assert len(program.gradients) == 1
  f, _, _ = back(program)
  want = jax.grad(lambda x: jax.scipy.special.gammainc(x, 2 * x).sum())(x)
  np.testing.assert_allclose(jax.grad(lambda x: f(x).sum())(x), want, rtol=1e-5)


@pytest.mark.parametrize("order", [1, 2])
def test_functions_whose_derivative_calls_python_have_values(order):
  @jax.custom_vjp
  def sine(x):
    return jnp.sin(x)

  def rule(x, cotangent):
    return (jax.pure_callback(np.cos, jax.ShapeDtypeStruct(x.shape, x.dtype), x) * cotangent,)

  sine.defvjp(lambda x: (sine(x), x), rule)

  @jax.custom_vjp
  def function(x):
    return jnp.sin(x)

  function.defvjp(lambda x: (function(x), x), lambda x, cotangent: (sine(x + np.pi / 2) * cotangent,))

  program = jax_program({1: sine, 2: function}[order], [X])
  bodies = [program.function, *program.library.values()]
  (message,) = [n.attrs["message"] for body in bodies for n in body.nodes if n.op == "PreventGradient"]
  assert b" has no derivative in TensorFlow: UnsupportedModuleError: function " in message
  assert b"host_callbacks" in message and len(program.gradients) == order - 1
  f = back(program)[0]
  np.testing.assert_allclose(f(X), np.sin(X), rtol=1e-6)
  if order == 2:
    np.testing.assert_allclose(jax.grad(lambda x: f(x).sum())(X), np.cos(X), rtol=1e-6)


def test_function_of_integers_is_a_constant_for_differentiation():
  f, _, _ = back(jax_program(lambda n: n * 0.5, [np.int32(3)]))
  assert f(np.int32(4)) == 2
  program = jax_program(lambda x: x.argmax(), [X])
  assert not program.gradients
  f, _, _ = back(program)
  np.testing.assert_array_equal(jax.grad(lambda x: f(x).astype(float) + x.sum())(X), np.ones_like(X))


def test_complex_gradients_are_those_of_jax():
  z = (X + 1j * X[::-1]).astype(np.complex64)
  f, _, _ = back(jax_program(lambda z: jnp.sin(z) * jnp.conj(z), [z]))
  for function in (lambda f: jax.grad(lambda z: jnp.abs(f(z)).sum()), lambda f: lambda z: jax.vjp(f, z)[1](z)[0]):
    np.testing.assert_allclose(function(f)(z), function(lambda z: jnp.sin(z) * jnp.conj(z))(z), rtol=1e-4, atol=1e-5)


def test_gradients_are_those_of_custom_rules_if_the_derivative_of_the_module_is_nan():
  x = X + 2
  f, _, _ = back(jax_program(jax.scipy.special.expi, [x]))
  np.testing.assert_allclose(jax.grad(lambda x: f(x).sum())(x), np.exp(x) / x, rtol=1e-5)


def test_programs_of_several_traces_have_names_of_their_own():
  programs = [jax_program(mlp, [X[:n]], params=PARAMS) for n in (1, 2, 1)]
  names = [{p.function.name, *p.library, *p.gradients} for p in programs]
  assert names[0].isdisjoint(names[1])
  assert names[0] == names[2]


def test_results_without_tensors_are_kept():
  f, _, _ = back(jax_program(lambda x: (None, {}), [X]))
  assert f(X) == (None, {})


def test_parameters_may_be_shapes_only():
  program = jax_program(lambda w, x: w * x, [X], params=jax.ShapeDtypeStruct((1000, 2, 3), np.float32))
  assert list(program.variables) == ["params"]
  assert program.variables["params"].shape == (1000, 2, 3) and program.variables["params"].strides == (0, 0, 0)


def test_names_of_variables_are_allowed_and_unique():
  params = {"~": {"a b": 1.0, "a?b": 2.0}, "": 3.0, "step": np.int32(4), "mlp/~/linear": {"w": 5.0}}
  program = jax_program(lambda params, x: x, [X], params=params)
  assert list(program.variables) == ["params", "mlp/_/linear/w", "step", "params/_/a_b", "params/_/a_b_1"]
  assert not program.variables["step"].trainable and program.variables["params"].trainable


def test_dtypes_that_tensorflow_lacks_raise():
  with pytest.raises(ConversionError, match=r"f: argument 'x' has dtype float8_e8m0fnu"):
    jax_program(lambda x: x, [jax.ShapeDtypeStruct((2,), jnp.float8_e8m0fnu)], name="f")


def test_dtypes_are_those_of_jax():
  program = jax_program(lambda w, x: w + x, [np.float64(1)], params=np.float64(2))
  assert program.function.parameters[0].dtype is DType.FLOAT
  assert program.variables["params"].dtype == np.float32


def test_arguments_that_do_not_fit_raise():
  message = r"mlp\(params, x\): missing a required argument: 'x'; .* 0 positional .* jax.ShapeDtypeStruct or an array"
  with pytest.raises(ConversionError, match=message):
    jax_program(mlp, [], params=PARAMS)
  with pytest.raises(ConversionError, match=r"unexpected keyword argument 'z'; .*\['z'\]"):
    jax_program(mlp, [X], {"z": X}, params=PARAMS)
  with pytest.raises(ConversionError, match="mlp: argument 'x_a' is 'text'"):
    jax_program(mlp, [{"a": "text"}], params=PARAMS)
  with pytest.raises(ConversionError, match="argument 'params_w' is <object"):
    jax_program(mlp, [X], params={"w": object()})
  with pytest.raises(ConversionError, match="parameter 'n' has int64 values beyond int32"):
    jax_program(mlp, [X], params={**PARAMS, "n": np.int64(2**40)})
  with pytest.raises(ConversionError, match="got a int"):
    jax_program(3, [X])
  for platforms in ("cpu", ["cpu", "abacus"]):
    with pytest.raises(ConversionError, match="platforms=.*'cuda'"):
      jax_program(jnp.sin, [X], platforms=platforms)
