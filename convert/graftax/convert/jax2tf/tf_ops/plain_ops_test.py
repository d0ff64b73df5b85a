import functools
import pickle
import pkgutil
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import sparse

from graftax.convert import ConversionError, UnsupportedPrimitiveError, convert_program, jax_program
from graftax.convert.jax2tf import plain_op_primitives
from graftax.convert.jax2tf.tf_ops.cpu_kernels import has_kernel
from graftax.convert.jax2tf.tf_ops.lifted_primitives import lifting_key
from graftax.graphdef_ir import DType, validate_function
from graftax.ops_jax import lowering

_BATCH = jax.export.symbolic_shape("batch")[0]


def _batch_of(*shape, dtype=np.float32):
  return jax.ShapeDtypeStruct((_BATCH, *shape), dtype)


def _program(function, *args, **options):
  return jax_program(function, args, lowering="tf_ops", **options)


def _ops(program):
  functions = [program.function, *program.library.values()]
  return {node.op for function in functions for node in function.nodes}


def _network(params, x):
  def step(carry, row):
    carry = jnp.tanh(carry @ params["w"] + row)
    return carry, lax.cond(carry.sum() > 0, jnp.sin, jnp.cos, carry)

  final, rows = lax.scan(step, jnp.zeros_like(x[:, 0]), jnp.swapaxes(x, 0, 1))
  return jax.nn.softmax(final), rows, lax.while_loop(lambda n: n < 9, lambda n: n * 2, 1)


_PARAMS = {"w": np.linspace(-1, 1, 9, dtype=np.float32).reshape(3, 3)}


def test_callbacks_are_to_be_removed():
  with pytest.raises(UnsupportedPrimitiveError, match="Remove them: graftax writes no callbacks to Python") as caught:
    _program(lambda x: jax.pure_callback(np.sin, x, x), np.float32(1))
  # Programs of diffrax, optimistix and lineax have callbacks of this kind only.
  assert "EQX_ON_ERROR=nan" in str(caught.value)


def test_programs_have_neither_xla_ops_nor_prevented_gradients():
  program = _program(_network, _batch_of(4, 3), params=_PARAMS)
  ops = _ops(program)
  assert not {op for op in ops if op.startswith("Xla") or op == "PreventGradient"}
  assert {"StatelessWhile", "StatelessIf", "MatMul", "ReadVariableOp"} <= ops
  assert len(program.gradients) == 2


def test_modules_of_rules_are_listed_once(monkeypatch):
  plain_op_primitives()
  monkeypatch.setattr(pkgutil, "iter_modules", None)
  assert _program(_network, _batch_of(4, 3), params=_PARAMS).function.nodes


def test_functions_of_a_program_are_well_formed():
  program = _program(_network, _batch_of(4, 3), params=_PARAMS)
  for function in (program.function, *program.library.values()):
    validate_function(function, program.library, program.signatures)


@pytest.mark.parametrize("size", [1, 7])
def test_a_program_that_is_converted_back_equals_the_function(size):
  x = np.random.default_rng(0).normal(size=(size, 4, 3)).astype(np.float32)
  fn, params = convert_program(_program(_network, _batch_of(4, 3), params=_PARAMS))
  for found, expected in zip(fn(params, x)[0], _network(_PARAMS, x), strict=True):
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_function_that_jax_cannot_differentiate_has_values_and_refuses_the_gradient():
  program = _program(lambda x: lax.igamma_grad_a(x, 2 * x), _batch_of(2))
  (message,) = [node.attrs["message"] for node in program.function.nodes if node.op == "PreventGradient"]
  assert b"JAX cannot differentiate" in message and b"Differentiation rule for 'igamma_grad_a'" in message
  x = np.array([[0.5, 1]], np.float32)
  np.testing.assert_allclose(convert_program(program)[0]({}, x)[0], lax.igamma_grad_a(x, 2 * x), rtol=1e-5)


def test_gradients_are_those_of_custom_rules():
  @jax.custom_vjp
  def tripled(x):
    return x**2

  tripled.defvjp(lambda x: (x**2, None), lambda _, g: (3 * g,))
  fn, params = convert_program(_program(tripled, _batch_of(2)))
  x = np.ones((3, 2), np.float32)
  np.testing.assert_array_equal(jax.grad(lambda x: fn(params, x)[0].sum())(x), 3 * x)


def test_what_has_no_form_is_one_error_with_counts_and_lines():
  def function(x):
    y = jax.pure_callback(np.sin, x, x)
    z = lax.linalg.eig(x)  # with left eigenvectors
    return jax.pure_callback(np.cos, y, y), z

  with pytest.raises(UnsupportedPrimitiveError) as raised:
    _program(function, jax.ShapeDtypeStruct((3, 3), np.float32))
  error = raised.value
  counts = {primitive: len(lines) for (primitive, _), lines in error.found.items()}
  assert counts == {"eig": 1, "pure_callback": 2}
  assert list(error.found) == sorted(error.found)
  assert re.search(r"pure_callback \(2\): no rule; at .*plain_ops_test.py:\d+", str(error))
  restored = pickle.loads(pickle.dumps(error))
  assert (str(restored), restored.found) == (str(error), error.found)


@jax.custom_batching.custom_vmap
def _halved(x):
  return x / 2


@_halved.def_vmap
def _(axis_size, in_batched, x):
  del axis_size, in_batched
  return x / 2, True


def _root(x):
  """Returns a square root. JAX calls the solver of `lax.custom_root` by a primitive that has no rule."""
  return lax.custom_root(
    lambda y: y**2 - x,
    x,
    lambda f, y: lax.fori_loop(0, 20, lambda _, y: y - f(y) / (2 * y), y),
    lambda g, y: y / g(jnp.ones_like(y)),
  )


_WITHOUT_RULES = {
  "custom_vmap": lambda x: _halved(jnp.sin(x)),
  "custom_root": lambda x: jax.vmap(_root)(jnp.abs(x[:, 0]) + 1),
  "ragged_dot": lambda x: lax.ragged_dot(x, jnp.ones((2, 4, 3)), jnp.array([1, x.shape[0] - 1])),
  "a sparse matrix": lambda x: sparse.BCOO.fromdense(np.eye(4, dtype=np.float32) * 2, nse=4) @ x.T,
  "gamma": lambda x: jax.random.gamma(jax.random.key(0), jnp.abs(x) + 1),
}


# JAX computes random bits of an open number of elements with integers of 64 bits.
@pytest.mark.parametrize(
  ("name", "batch"),
  [(name, batch) for name in _WITHOUT_RULES for batch in (3, None) if (name, batch) != ("gamma", None)],
)
def test_primitives_without_a_rule_are_what_they_lower_to(name, batch):
  function = _WITHOUT_RULES[name]
  x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
  program = _program(function, jax.ShapeDtypeStruct((_BATCH if batch is None else batch, 4), np.float32))
  fn, params = convert_program(program)
  np.testing.assert_allclose(fn(params, x)[0], function(x), rtol=1e-5, atol=1e-6)


def test_derivatives_of_primitives_without_a_rule():
  def loss(x):
    return (_root(x) ** 3).sum()

  fn, params = convert_program(_program(jax.grad(loss), np.float32(2)))
  np.testing.assert_allclose(fn(params, np.float32(2))[0], 1.5 * np.sqrt(2), rtol=1e-5)


def _num_edges(num_sizes):
  scope = jax.export.SymbolicScope()
  shapes = [jax.export.symbolic_shape(f"n{i}", scope=scope) for i in range(num_sizes)]
  args = [jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes]
  program = _program(lambda *xs: sum(x.sum() for x in xs), *args, gradient_order=0)
  return sum(len(node.inputs) + len(node.control_inputs) for node in program.function.nodes)


def test_checks_of_sizes_grow_with_their_number():
  assert _num_edges(80) < 2.1 * _num_edges(40)


@pytest.mark.parametrize("size", ["n", "5000000000*n", "n + 5000000000", "n^1000"])
def test_numbers_that_are_no_sizes_end_no_conversion(size):
  shape = jax.export.symbolic_shape(f"m, {size}", constraints=["m <= 5000000000"])
  fn, params = convert_program(_program(lambda x: x * 2, jax.ShapeDtypeStruct(shape, np.float32), gradient_order=0))
  np.testing.assert_array_equal(fn(params, np.ones((3, 2), np.float32))[0], np.full((3, 2), 2))


def test_an_operation_of_a_function_of_jax_itself_has_no_line():
  with pytest.raises(UnsupportedPrimitiveError) as raised:
    _program(lax.linalg.hessenberg, jax.ShapeDtypeStruct((3, 3), np.float32))
  assert raised.value.found == {("hessenberg", "no rule"): ("",)}


def _library_primitive(name, lowering):
  """Returns a function of one array that is a new primitive, such as JAX libraries define."""
  primitive = jax.extend.core.Primitive(name)
  primitive.def_abstract_eval(lambda x, **_: x)
  jax.interpreters.mlir.register_lowering(primitive, jax.interpreters.mlir.lower_fun(lowering, multiple_results=False))
  return primitive.bind


def test_equations_that_are_alike_are_lifted_once():
  lowered = []

  def scale(x, by):
    lowered.append((x.dtype.name, by))
    return x * jnp.asarray(by).astype(x.dtype)

  scaled = _library_primitive("scale_by", scale)

  def function(x):
    return jnp.sin(scaled(scaled(scaled(x, by=2), by=2), by=3)), scaled(x.astype(np.int32), by=2), scaled(x, by=2.0)

  x = np.arange(3, dtype=np.float32)
  converted, params = convert_program(_program(function, x, gradient_order=0))
  found = converted(params, x)[0]
  kinds = [("float32", 2), ("float32", 3), ("int32", 2), ("float32", 2.0)]
  assert [(dtype, type(by), by) for dtype, by in lowered] == [(dtype, type(by), by) for dtype, by in kinds]
  for result, expected in zip(found, [np.sin(x * 12), x.astype(np.int32) * 2, x * 2], strict=True):
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_equations_with_nearly_equal_parameters_are_lifted_each():
  lowered = []

  def scale(x, by):
    lowered.append(by)
    return x * jnp.asarray(by[0], x.dtype)

  scaled = _library_primitive("scale_by_first", scale)
  kinds = [(1, 2), (1.0, 2.0), (True, 2), (0.0, 2), (-0.0, 2), (3, (1, 2)), (3, (1, 2.0))]
  x = np.ones(3, np.float32)
  program = _program(lambda x: [scaled(x, by=by) for by in [*kinds, *kinds]], x, gradient_order=0)
  converted, params = convert_program(program)
  assert [repr(by) for by in lowered] == [repr(by) for by in kinds]
  for result, (by, *_) in zip(converted(params, x)[0], [*kinds, *kinds], strict=True):
    np.testing.assert_array_equal(result, x * by)
    np.testing.assert_array_equal(np.signbit(result), np.signbit(x * by))


def test_equations_with_parameters_that_cannot_be_hashed_are_lifted_each():
  # JAX checks parameters in calls of primitives, and not in equations that are made otherwise.
  scaled = _library_primitive("scale_by_all", lambda x, by: x * jnp.asarray(sum(by), x.dtype))
  (equation,) = jax.make_jaxpr(lambda x: scaled(x, by=(1, 2)))(np.ones(3, np.float32)).jaxpr.eqns
  assert lifting_key(equation) == lifting_key(equation.replace(params={"by": (1, 2)}))
  assert lifting_key(equation.replace(params={"by": [1, 2]})) is None


@pytest.mark.parametrize(
  ("lowering", "reason"),
  [
    (lambda x: lax.linalg.hessenberg(x)[0], "no rule, and its lowering has none for hessenberg"),
    (lambda x: jax.pure_callback(np.sin, x, x), "no rule, and it calls back to Python, as equinox.error_if does"),
  ],
)
def test_the_error_says_what_the_lowering_of_a_primitive_lacks(lowering, reason):
  function = _library_primitive("library_call", lowering)
  with pytest.raises(UnsupportedPrimitiveError) as raised:
    _program(lambda x: function(x), jax.ShapeDtypeStruct((3, 3), np.float32), gradient_order=0)
  assert f"library_call (1): {reason}" in str(raised.value)


def test_a_dtype_of_a_library_is_named():
  fp8_ops = pytest.importorskip("flax.linen.fp8_ops")

  def function(x):
    stored = lax.convert_element_type(x, fp8_ops.fp32_max_grad)
    return lax.scan(lambda carry, row: (carry, row), 0, stored)[1].astype(np.float32)

  with pytest.raises(UnsupportedPrimitiveError, match="fp8_meta32 is not a dtype of TensorFlow"):
    _program(function, jax.ShapeDtypeStruct((3,), np.float32), gradient_order=0)


def test_the_error_names_no_line_if_jax_knows_none():
  error = UnsupportedPrimitiveError("f", {("random_gamma", "no rule"): ("",)})
  assert "f: 1 operation has no form in plain TensorFlow ops:\n  random_gamma (1): no rule\n" in str(error)


def test_a_derivative_without_a_form_raises_unless_it_is_left_out():
  @jax.custom_vjp
  def once(x):
    return jnp.sin(x)

  def backward(x, g):
    return (jax.pure_callback(lambda x: x, g, g * x),)

  once.defvjp(lambda x: (jnp.sin(x), x), backward)
  with pytest.raises(UnsupportedPrimitiveError, match="pure_callback"):
    _program(once, _batch_of(2))
  assert not _program(once, _batch_of(2), gradient_order=0).gradients


def test_loops_of_integers_of_a_symbolic_size_have_derivatives_of_two_orders():
  def function(x):
    def step(carry):
      return carry[0] + 1, carry[1] * jnp.sin(x)

    return lax.while_loop(lambda carry: (carry[0] < 3).any(), step, (jnp.zeros(x.shape, np.int32), x))

  program = _program(function, _batch_of())
  fn, _ = convert_program(program)
  x = np.array([0.5, 0.7], np.float32)
  found = jax.vjp(lambda x: fn({}, x)[0][1], x)[1](np.ones(2, np.float32))[0]
  np.testing.assert_allclose(found, np.sin(x) ** 3 + 3 * x * np.sin(x) ** 2 * np.cos(x), rtol=1e-5)


@pytest.mark.parametrize(
  ("function", "shape", "message"),
  [
    (lax.cummax, jax.export.symbolic_shape("n"), "complex numbers along an axis of unknown size"),
    (lambda x: lax.linalg.eig(x)[1], (3, 3), "left eigenvectors"),
    (lambda x: lax.linalg.qr(x, pivoting=True), jax.export.symbolic_shape("n, 3"), "sizes that are numbers"),
  ],
)
def test_complex_numbers_without_a_form_raise(function, shape, message):
  with pytest.raises(UnsupportedPrimitiveError, match=message):
    _program(function, jax.ShapeDtypeStruct(shape, np.complex64), gradient_order=0)


def test_integers_of_two_bits_raise():
  with pytest.raises(ConversionError, match="does not cast int2"):
    _program(lambda x: x.astype(np.float32), jax.ShapeDtypeStruct((3,), jnp.int2))


def test_prevented_gradients_are_there_if_asked_for():
  assert "PreventGradient" in _ops(_program(jnp.sin, _batch_of(2), with_gradient=False))
  assert "PreventGradient" not in _ops(_program(jnp.sin, _batch_of(2), gradient_order=0))


@pytest.mark.parametrize("option", [{"target": "tensorflow-2.16"}, {"platforms": ["cpu"]}])
def test_options_of_stablehlo_raise(option):
  with pytest.raises(ConversionError, match=next(iter(option))):
    _program(jnp.sin, _batch_of(2), **option)


def test_another_lowering_raises():
  with pytest.raises(ConversionError, match="'hlo'"):
    jax_program(jnp.sin, [_batch_of(2)], lowering="hlo")


def test_a_size_that_no_argument_tells_raises():
  a, b = jax.export.symbolic_shape("a, b")
  with pytest.raises(UnsupportedPrimitiveError, match="cannot be read"):
    _program(lambda x: x.sum(0) * jnp.ones(x.shape[0]), jax.ShapeDtypeStruct((a + b,), np.float32))


def test_sizes_are_computed_from_multiples_of_the_batch():
  twice = jax.ShapeDtypeStruct((2 * _BATCH, 3), np.float32)
  fn, _ = convert_program(_program(lambda x: x.sum() + jnp.arange(x.shape[0] ** 2 // 4 + x.shape[0] % 3), twice))
  x = np.ones((6, 3), np.float32)
  np.testing.assert_array_equal(fn({}, x)[0], 18 + np.arange(9))


def test_large_constants_are_not_stored_repeated():
  program = _program(lambda x: x + jnp.zeros((500, 500)), jax.ShapeDtypeStruct((500, 500), np.float32))
  constants = [node.attrs["value"] for node in program.function.nodes if node.op == "Const"]
  assert max(constant.size for constant in constants) < 10


def test_at_least_a_hundred_primitives_have_rules():
  names = set(plain_op_primitives())
  assert len(names) >= 150
  assert {"conv_general_dilated", "gather", "scatter_add", "scan", "sort", "threefry2x32", "while"} <= names


def test_the_table_of_kernels_says_what_tensorflow_takes():
  assert has_kernel("MatMul", {"T": DType.INT32})
  assert not has_kernel("MatMul", {"T": DType.UINT8})


def test_code_for_all_platforms_is_written_rather_than_that_for_cpus():
  x = np.linspace(-1, 1, 3, dtype=np.float32)

  def function(x):
    return lax.platform_dependent(x, cpu=jnp.sin, default=jnp.tanh)

  program = _program(function, x)
  assert "Tanh" in _ops(program) and "Sin" not in _ops(program)
  only_cpu = _program(lambda x: lax.platform_dependent(x, cpu=jnp.sin, tpu=jnp.tanh), x)
  assert "Sin" in _ops(only_cpu) and "Tanh" not in _ops(only_cpu)
  gradient = _program(jax.grad(lambda x: function(x).sum()), x)
  np.testing.assert_allclose(convert_program(gradient)[0]({}, x)[0], 1 - np.tanh(x) ** 2, rtol=1e-6)


def test_code_for_cpus_is_written_for_values_and_derivatives_if_a_part_of_the_other_has_no_form():
  x = np.linspace(-1, 1, 3, dtype=np.float32)

  @jax.custom_vjp
  def for_all(x):
    return jnp.tanh(x)

  def backward(y, dy):
    return (jax.pure_callback(lambda y, dy: dy * (1 - y**2), jax.ShapeDtypeStruct(y.shape, y.dtype), y, dy),)

  for_all.defvjp(lambda x: (jnp.tanh(x), jnp.tanh(x)), backward)
  program = _program(jax.grad(lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=for_all).sum()), x)
  np.testing.assert_allclose(convert_program(program)[0]({}, x)[0], np.cos(x), rtol=1e-6)
  with pytest.raises(UnsupportedPrimitiveError, match="pure_callback"):
    _program(jax.grad(lambda x: lax.platform_dependent(x, cpu=for_all, default=for_all).sum()), x)


def test_convolutions_with_a_form_for_cpus_stay_convolutions():
  x, kernel = np.ones((1, 14, 14, 64), np.float32), np.ones((3, 3, 64, 64), np.float32)
  conv = lowering("Conv2D").function
  program = _program(functools.partial(conv, strides=(1, 1, 1, 1), padding="SAME"), x, kernel)
  assert [node.op for node in program.function.nodes if node.op in ("Conv2D", "MatMul", "BatchMatMulV2")] == ["Conv2D"]
