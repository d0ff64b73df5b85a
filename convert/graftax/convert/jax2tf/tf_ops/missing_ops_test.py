"""Plain ops for converters that lack some of TensorFlow's ops, computed in JAX and compared with the functions."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graftax.convert import ConversionError, UnsupportedPrimitiveError, convert_program, jax_program
from graftax.convert.jax2tf.tf_ops import builder
from graftax.convert.jax2tf.tf_ops.missing_ops import CONSUMERS, missing_ops
from graftax.graphdef_ir import DType
from graftax.xla_call_module.lax_extras import mulhi

_LINE = np.concatenate([np.linspace(-9, 9, 721, dtype=np.float32), np.float32([1e-6, -1e-6, np.inf, -np.inf, np.nan])])


def _program(function, args, consumer):
  specs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in args]
  return jax_program(function, specs, lowering="tf_ops", target=consumer, gradient_order=0)


def _results(function, args, consumer):
  program = _program(function, args, consumer)
  nodes = [node.op for f in (program.function, *program.library.values()) for node in f.nodes]
  assert missing_ops(consumer).isdisjoint(nodes)
  fn, params = convert_program(program)
  return [np.asarray(x) for x in jax.tree.leaves(fn(params, *args))]


def _check(function, *args, consumers=CONSUMERS, rtol=2e-6, atol=0.0, signs_of_zeros=True):
  expected = [np.asarray(x) for x in jax.tree.leaves(jax.jit(function)(*args))]
  for consumer in consumers:
    for ours, theirs in zip(_results(function, args, consumer), expected, strict=True):
      assert ours.dtype == theirs.dtype
      np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol, err_msg=consumer)
      if theirs.dtype.kind == "f" and signs_of_zeros:
        np.testing.assert_array_equal(np.signbit(ours[theirs == 0]), np.signbit(theirs[theirs == 0]))


def test_error_functions_keep_the_relative_error_in_the_tail():
  special = pytest.importorskip("scipy.special")
  normal = _LINE[~(_LINE > 9.1)]  # beyond, the result is subnormal
  for consumer in CONSUMERS:
    erf, erfc = _results(lambda x: (lax.erf(x), lax.erfc(x)), [normal], consumer)
    np.testing.assert_allclose(erfc, special.erfc(normal.astype(np.float64)), rtol=1e-6)  # measured 4e-7
    np.testing.assert_allclose(erf, special.erf(normal.astype(np.float64)), rtol=1e-6, atol=1e-12)


def test_gradients_of_exact_gelu():
  _check(jax.grad(lambda x: jax.nn.gelu(x, approximate=False).sum()), _LINE[:721], rtol=2e-5, atol=1e-7)


def test_expm1_and_log1p_are_exact_near_zero():
  x = np.float32([0.0, -0.0, 1e-8, -1e-8, 3e-4, -3e-4, 0.4, -0.9, 1.5, -30.0, 200.0, np.inf, -np.inf, np.nan])
  _check(jnp.expm1, x)
  _check(jnp.log1p, np.where(x == -np.inf, np.float32(-1), np.maximum(x, -1)))


def test_remainders():
  x = np.float32([-7.5, 7.5, -4, 0.0, -0.0, 1e9, np.inf, 3, 3, np.nan, -2])
  y = np.float32([2, -2, 2, 3, 3, 7, 2, np.inf, 0, 1, -np.inf])
  with jax.enable_x64(True):  # those for onnx are computed in float64
    _check(lambda x, y: (lax.rem(x, y), jnp.mod(x, y)), x, y)
  least, most = np.iinfo(np.int32).min, np.iinfo(np.int32).max
  m = np.int32([-7, 7, -7, least, least, most, 5, -5, 0])
  n = np.int32([2, -2, -2, -1, 3, 10, 0, 0, 4])
  _check(lambda m, n: (lax.rem(m, n), lax.div(m, n), m // n, lax.div(m, jnp.int32(-3))), m, n)


def test_remainders_of_a_quotient_beyond_float32_for_onnx():
  x = np.float32([3e38, -3e38, 1e30, 12345.678, 7e37, 1e9, 16777216 * 3.0])
  y = np.float32([1.3e-30, 7.0, 3e-29, 1e-5, 1.5e-25, 3.0, 16777214.0])
  with jax.enable_x64(True):
    _check(lambda x, y: (lax.rem(x, y), lax.rem(x, y[::-1])), x, y, consumers=["onnx"])
    with pytest.raises(UnsupportedPrimitiveError, match="remainders of float64"):
      _program(lax.rem, [np.ones(2), np.ones(2)], "onnx")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_a_selection_for_onnx_has_a_condition_for_which_tf2onnx_does_not_multiply(dtype):
  x = jnp.asarray([-1, 2, 3], dtype)
  program = _program(lambda x: jnp.where(x > 0, x, x / 2 if dtype != "int32" else x), [x], "onnx")
  nodes = {node.name: node for node in program.function.nodes}
  (selection,) = (node for node in nodes.values() if node.op == "SelectV2")
  assert nodes[selection.inputs[0].node].op == ("Greater" if dtype == "int32" else "IsInf")
  assert dtype == "int32" or selection.attrs["T"].numpy == np.float32
  _check(lambda x: jnp.where(x > 0, jnp.log(x), x), np.float32([-1, 0, np.inf, -np.inf, np.nan]), consumers=["onnx"])


def test_loops_in_loops_for_onnx_share_no_names_and_have_no_branches_and_no_constant_limit():
  x = np.linspace(-1, 1, 6, dtype=np.float32)

  def step(i, r):
    inner = lax.scan(lambda c, q: (c * 0.5 + q * r, None), 1.0, x)[0]
    return i + 1, lax.switch(i, [jnp.sin, lambda y: y + x.sum(), lambda y: lax.cond(y > 0, jnp.cos, jnp.exp, y)], inner)

  def function(x):
    def test(s):
      return lax.cond(s[0] < 2, lambda y: y.sum() < 9, lambda y: (y < 5).all(), s[1])

    return lax.scan(step, -1, x), lax.while_loop(test, lambda s: (s[0] + 1, s[1] * 1.5 + 1), (0, x))

  _check(function, x, consumers=["onnx"])
  program = _program(function, [x], "onnx")
  functions = [program.function, *program.library.values()]
  names = [name for f in functions for name in ({n.name for n in f.nodes} | {p.name for p in f.parameters})]
  assert len(names) == len(set(names))
  assert all(n.op not in ("If", "StatelessIf") for f in program.library.values() for n in f.nodes)
  for f in functions:
    constants = {n.name: n.attrs["value"] for n in f.nodes if n.op == "Const"}
    for node in f.nodes:
      if node.op == "StatelessWhile":
        assert constants[node.inputs[1].node].numpy() == -1


@pytest.mark.parametrize("consumer", CONSUMERS)
def test_complex_numbers_are_parts(consumer):
  x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(4, 16)

  def function(x):
    y = jnp.fft.rfft(x)
    moved = [
      y[:, 2:5],
      y.T,
      -y,
      jnp.where(x[:, :9] > 0, y, 1 + 2j),
      y[jnp.int32([2, 0])],
      jnp.pad(y, 1),
      y[::-1],
      y.sum(0),
      2 * y + (1 - 3j),
      y / (3 - 4j),
      y / (y[::-1] + 3),
      jnp.exp(1j * x[:, :9]) * y,
      (y * 1e30 / 1e30) ** 2,
      2j * jnp.conj(y),
      y * np.exp(1j * np.arange(36).reshape(4, 9)).astype(np.complex64),
      jnp.concatenate([y, np.full((1, 9), 1j, np.complex64)]),
      jnp.where(jnp.zeros((400, 4, 9), bool), 1j, y)[0],
    ]
    return [part for z in moved for part in (jnp.abs(z), jnp.real(z), jnp.imag(z))]

  _check(function, x, consumers=[consumer], rtol=2e-5, atol=1e-5, signs_of_zeros=False)
  if consumer != "tfjs":
    start = np.ones((4, 9), np.complex64)
    _check(lambda x: jnp.abs(lax.fori_loop(0, 2, lambda i, c: c * jnp.fft.rfft(x) + i, start)), x, consumers=[consumer])
  refused = {
    "read the op Log": lambda x: jnp.abs(jnp.log(jnp.fft.rfft(x))),
    {"onnx": "read the op Real", "tflite": "have complex numbers", "tfjs": "read the op Const"}[consumer]: lambda x: (
      jnp.abs(lax.cond(x[0, 0] > 0, lambda y: y, lambda y: jnp.full_like(y, 1j), jnp.fft.rfft(x)))
    ),
  }
  for reason, of_complex_numbers in refused.items():
    with pytest.raises(UnsupportedPrimitiveError, match=f"the converter to {consumer} does not {reason}"):
      _program(of_complex_numbers, [x], consumer)
  with pytest.raises(UnsupportedPrimitiveError):
    _program(jnp.fft.rfft, [x], "onnx")


def test_infinite_real_numbers_have_no_imaginary_part():
  def function(x):
    y = x.astype(np.complex64)
    return jnp.real(y), jnp.imag(y)

  _check(function, np.float32([np.inf, -np.inf, np.nan, 1]))


@pytest.mark.parametrize("consumer", CONSUMERS)
def test_fourier_transforms(consumer):
  x = np.random.default_rng(0).normal(size=(2, 6, 40)).astype(np.float32)

  def function(x):
    y = lax.complex(x, x[::-1])
    found = [jnp.fft.rfft(x), jnp.fft.fft(y), jnp.fft.ifft(y), jnp.fft.rfft(x[..., :37]), jnp.fft.rfft(x[..., :32])]
    found += [jnp.fft.rfft2(x), jnp.fft.fft2(y), jnp.fft.ifftn(y), jnp.fft.rfftn(x)]
    inverse = [jnp.fft.irfft(y), jnp.fft.irfft(y[..., :21], 40), jnp.fft.irfft(y[..., :20], 39), jnp.fft.irfft2(y)]
    return inverse, [f(z) for z in found for f in (jnp.real, jnp.imag)]

  _check(function, x, consumers=[consumer], rtol=1e-5, atol=5e-5, signs_of_zeros=False)
  with pytest.raises(UnsupportedPrimitiveError, match="a Fourier transform of length 20011"):
    _program(lambda x: jnp.abs(jnp.fft.fft2(x)), [np.zeros((2, 20011), np.float32)], consumer)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint32, np.int32])
def test_high_words_of_products(dtype):
  ends = np.iinfo(dtype)
  x = np.array([0, 1, 3, ends.max, ends.max - 5, ends.min, ends.min + 7, ends.max // 3], dtype)
  x, y = (a.ravel() for a in np.meshgrid(x, x))
  with jax.enable_x64(True):
    (found,) = _results(mulhi, [x, y], "onnx")
  expected = (x.astype(object) * y.astype(object)) >> ends.bits
  np.testing.assert_array_equal(found, expected.astype(dtype))


def test_high_words_of_products_without_words_of_twice_the_size():
  x = np.array([0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1, 0x123456789ABCDEF0], np.uint64)
  with jax.enable_x64(True):
    for dtype in (np.uint64, np.int64):
      a, b = (m.ravel().view(dtype) for m in np.meshgrid(x, x))
      (found,) = _results(mulhi, [a, b], "onnx")
      np.testing.assert_array_equal(found, ((a.astype(object) * b.astype(object)) >> 64).astype(dtype))


def test_bits_of_floats_for_onnx():
  x = np.float32([0, -0.0, 1, -1, 1.5, -2.7e-45, 1e-40, 1.1754944e-38, 3.4028235e38, np.inf, -np.inf, np.nan, 0.1])
  for dtype in (np.uint32, np.int32):
    (found,) = _results(lambda bits: lax.bitcast_convert_type(bits, np.float32), [x.view(dtype)], "onnx")
    np.testing.assert_array_equal(found.view(np.uint32)[:11], x.view(np.uint32)[:11])
    assert np.isnan(found[11]) and found[12] == x[12]
  _check(lambda seed: jax.random.uniform(jax.random.key(seed), (5,)), np.int32(3), consumers=["onnx"], rtol=0)


_WORDS = np.uint32(
  [0, 1, 2, 3, 7, 65535, 65536, 2**31 - 1, 2**31, 2**31 + 9, 2**32 - 2, 2**32 - 1, 0x12345678, 0xDEADBEEF]
)


@pytest.mark.parametrize("consumer", ["tflite", "tfjs"])
@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
def test_32_bit_integers_of_consumers_that_have_only_some_ops_on_int32(consumer, dtype):
  x, y = (a.ravel().view(dtype) for a in np.meshgrid(_WORDS, _WORDS))

  def function(x, y):
    a, b = (lax.bitcast_convert_type(z, dtype) for z in (x, y))
    bits = [a & b, a | b, a ^ b, ~a, a & 0xFF, a * b, a * a, mulhi(a, b), -a, a + b, a - b]
    shifts = [f(a, dtype(n)) for n in (0, 1, 5, 31) for f in (lax.shift_left, lax.shift_right_logical)]
    shifts += [lax.shift_right_arithmetic(a, dtype(n)) for n in (0, 1, 5, 31, 32)]
    shifts += [f(a, b) for f in (lax.shift_left, lax.shift_right_logical, lax.shift_right_arithmetic)]
    orders = [a < b, a >= b, a == b, jnp.maximum(a, b), jnp.minimum(a, b)]
    divided = [lax.div(a, b), lax.rem(a, b), lax.div(a, dtype(7)), lax.rem(a, dtype(7))]
    casts = [a.astype(np.float32), a.astype(bool), jnp.abs(a.astype(np.float32) / 2).astype(dtype)]
    found = [*bits, *shifts, *orders, *divided, *casts]
    return [lax.bitcast_convert_type(z, np.int32) if z.dtype == np.uint32 else z for z in found]

  _check(function, x.view(np.int32), y.view(np.int32), consumers=[consumer], rtol=0)


@pytest.mark.parametrize("consumer", ["tflite", "tfjs"])
def test_random_numbers_of_consumers_without_uint32(consumer):
  def function(seed, x):
    key = jax.random.fold_in(jax.random.key(seed), 3)
    first, second, third = jax.random.split(key, 3)

    def step(key, row):
      key, own = jax.random.split(key)
      return key, row * jax.random.bernoulli(own, 0.5, row.shape)

    rows = lax.scan(step, first, x)[1]
    kept = lax.cond(x.sum() > 0, lambda k: jax.random.key_data(k)[0], lambda k: jax.random.key_data(k)[1], second)
    return rows, jax.random.uniform(second, (5,)), jax.random.randint(third, (6,), -3, 9), kept.astype(np.float32)

  _check(function, np.int32(5), np.ones((3, 4), np.float32), consumers=[consumer], rtol=0)
  program = _program(function, [np.int32(5), np.ones((3, 4), np.float32)], consumer)
  dtypes = [value for f in (program.function, *program.library.values()) for n in f.nodes for value in n.attrs.values()]
  assert DType.UINT32 not in dtypes


def test_uint32_of_signatures():
  key = np.uint32([1, 2**31 + 5])
  _check(lambda key: (key + 1, key >> 3), key, consumers=["tflite"])
  with pytest.raises(UnsupportedPrimitiveError, match=r"argument \(1\): the converter to tfjs does not have .* uint32"):
    _program(lambda key: (key >> 3).astype(np.float32), [key], "tfjs")
  with pytest.raises(UnsupportedPrimitiveError, match="the converter to tflite does not read the op Sum of uint32"):
    _program(lambda key: key.sum().astype(np.float32), [key], "tflite")


def test_open_sizes_for_onnx_are_not_divided_as_integers():
  rows = jax.ShapeDtypeStruct(jax.export.symbolic_shape("rows, 2"), np.float32)

  def halves(x):
    return jnp.zeros((-(-x.shape[0] // 2), x.shape[0] % 3), jnp.float32)

  program = jax_program(halves, [rows], lowering="tf_ops", target="onnx", gradient_order=0)
  assert not {"FloorDiv", "FloorMod"} & {node.op for node in program.function.nodes}
  fn, params = convert_program(program)
  for size in (1, 4, 5):
    assert fn(params, np.zeros((size, 2), np.float32))[0].shape == halves(np.zeros((size, 2))).shape


def test_tflite_gets_operands_of_one_shape_and_no_reserved_rows_of_open_sizes():
  rows = jax.ShapeDtypeStruct(jax.export.symbolic_shape("5, batch"), np.float32)

  def scan(x):
    return lax.scan(lambda c, r: (c + r, c * r), jnp.arctan2(x[0], 1.5), x)

  program = jax_program(scan, [rows], lowering="tf_ops", target="tflite", gradient_order=0)
  nodes = {node.name: node for node in program.function.nodes}
  assert "TensorListReserve" not in {node.op for node in nodes.values()}
  (angle,) = (node for node in nodes.values() if node.op == "Atan2")
  assert {nodes[operand.node].op for operand in angle.inputs} == {"BroadcastTo"}
  fn, params = convert_program(program)
  x = np.linspace(-1, 1, 10, dtype=np.float32).reshape(5, 2)
  for ours, theirs in zip(jax.tree.leaves(fn(params, x)), jax.tree.leaves(scan(x)), strict=True):
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_tfjs_gets_copies_of_what_it_writes_into():
  x, at = np.arange(6, dtype=np.float32).reshape(3, 2), np.int32([2, 0])

  def function(x, at):
    zeros = jnp.zeros_like(x)
    slices = [lax.dynamic_update_slice(y, x[:1], (at[0], 0)) for y in (x, zeros)]
    return slices, x.at[1].set(9.0), x.at[at].set(x[:2]), (x > 2).at[at].set(True), jnp.arange(4).at[at].set(7)

  _check(function, x, at, consumers=["tfjs"])
  nodes = {node.name: node for node in _program(function, [x, at], "tfjs").function.nodes}
  scatters = [node for node in nodes.values() if node.op == "TensorScatterUpdate"]
  assert len(scatters) == 6
  for node in scatters:
    copy = nodes[node.inputs[0].node]
    assert copy.op in ("Maximum", "LogicalOr")
    assert [r.node for other in nodes.values() for r in other.inputs].count(copy.name) == 1


@pytest.mark.parametrize("consumer", ["tflite", "tfjs"])
def test_lists_are_not_in_the_bodies_of_loops(consumer):
  x = np.arange(12, dtype=np.float32).reshape(2, 3, 2)

  def function(x):
    def rows(v):
      return lax.scan(lambda c, row: (c + 1, row * 10 + c), 0.0, v)[1]

    def step(carry, v):
      return carry * 2 + rows(v), carry > 3

    return lax.scan(step, rows(x[0]), x), lax.fori_loop(0, 2, lambda i, y: y * 2 + rows(x[i]).sum(0), x[0, 0])

  _check(function, x, consumers=[consumer])
  program = _program(function, [x], consumer)
  num_lists = {f.name: sum(node.op == "TensorListReserve" for node in f.nodes) for f in program.library.values()}
  assert len(num_lists) >= 8 and not any(num_lists.values())
  assert sum(node.op == "TensorListReserve" for node in program.function.nodes) == 2


def test_tflite_gets_no_variable_of_a_loop_at_the_place_of_another():
  x = np.float32([1, -0.0, np.inf])

  def function(x):
    swapped = lax.fori_loop(0, 5, lambda i, c: (c[1], c[0], ~c[2]), (x, x * 2, x > 0))
    rotated = lax.scan(lambda c, r: ((c[1], c[2], c[0]), c[0] * r), (x, x * 2, x * 3), jnp.arange(1.0, 4))
    return swapped, rotated

  _check(function, x, consumers=["tflite"])
  program = _program(function, [x], "tflite")
  bodies = [f for name, f in program.library.items() if "_body_" in name]
  assert len(bodies) == 2
  for body in bodies:
    copies = {node.name: node.inputs[0].node for node in body.nodes if node.op == "Identity"}
    names = [p.name for p in body.parameters]
    for place, result in enumerate(body.results):
      assert copies[result.ref.node] not in names[:place] + names[place + 1 :]


def test_onnx_gets_no_comparison_of_integers_as_floats():
  x = np.int32([2**31 - 1, 2**31 - 2, -(2**31), 5, 16777217])
  y = np.int32([2**31 - 2, 2**31 - 1, -(2**31) + 1, 5, 16777216])
  _check(lambda x, y: (x < y, x > y, x <= y, x < 5, x > 2**30), x, y, consumers=["onnx"])
  program = _program(lambda x, y: (x < y, x > y), [x, y], "onnx")
  assert not {"Less", "Greater"} & {node.op for node in program.function.nodes}


def test_tflite_gets_no_integers_between_0_and_6_as_its_converter_reads_relu6():
  x, at = np.arange(-3, 10, dtype=np.int32), np.int32([-1, 0, 3, 6, 9])

  def function(x, at):
    relu6 = jnp.maximum(jnp.minimum(x, 6), 0)
    taken = lax.gather(x[:7], at[:, None], lax.GatherDimensionNumbers((), (0,), (0,)), (1,), mode="clip")
    return relu6, taken, lax.dynamic_slice(x[:7], (at[3],), (1,)), jnp.asarray(x[:7]).at[at].add(1, mode="clip")

  _check(function, x, at, consumers=["tflite"])
  program = _program(function, [x, at], "tflite")
  of_minima = {node.name for node in program.function.nodes if node.op == "Minimum"}
  read = {operand.node for node in program.function.nodes if node.op == "Maximum" for operand in node.inputs}
  assert of_minima and not of_minima & read


def test_the_largest_floats():
  x = np.float32([[1, np.nan, np.inf, 0, -0.0, 7, np.inf], [-0.0, 0.0, -np.inf, -1, np.nan, -0.0, 0.0]])
  _check(lambda x: (lax.top_k(x, 3), lax.top_k(x, 7)), x)


def test_running_products_and_scattered_sums():
  x = np.linspace(-2, 2, 15, dtype=np.float32).reshape(3, 5)
  at = np.int32([0, 2, 0, 7])
  _check(lambda x: (jnp.cumprod(x, 1), lax.cumprod(x, 0, reverse=True)), x)
  _check(lambda x, at: (jnp.asarray(x).at[at].add(2.0), jnp.asarray(x).at[at].subtract(x[at])), x, at)


@pytest.mark.parametrize("op, function", [("Cumsum", lax.cumsum), ("Cumprod", lax.cumprod)])
def test_running_sums_and_products_without_their_op(monkeypatch, op, function):
  monkeypatch.setattr(builder, "missing_ops", lambda consumer: frozenset({op}))
  x = np.float32([[1, 2, 3, 4, 5], [-1, 0.5, 0, 2, -3], [7, -2, 1, 1, 0.25]])
  program = _program(lambda x: (function(x, 1), function(x, 0, reverse=True)), [x], "tflite")
  fn, params = convert_program(program)
  for found, expected in zip(
    jax.tree.leaves(fn(params, x)), (function(x, 1), function(x, 0, reverse=True)), strict=True
  ):
    np.testing.assert_array_equal(found, expected)  # all sums and products are exact


def test_the_inverse_of_the_error_function():
  x = np.concatenate([np.linspace(-1.25, 1.25, 201, dtype=np.float32), np.float32([1, -1, 0.9999999, -1e-20, np.nan])])
  _check(lax.erf_inv, x, rtol=1e-6)
  _check(lambda x: lax.erf_inv(x.astype(jnp.bfloat16)).astype(np.float32), x, rtol=1e-2)


@pytest.mark.parametrize("size", [1, 5, 18])
def test_matrices_by_substitution(size):
  random = np.random.default_rng(size)
  a = random.uniform(-1, 1, (2, size, size)).astype(np.float32) + 4 * np.eye(size, dtype=np.float32)
  y = random.uniform(-1, 1, (2, size, 3)).astype(np.float32)
  positive = a @ a.swapaxes(1, 2)
  positive = np.concatenate([positive, -positive[:1]])

  def function(a, y, positive):
    solved = [
      lax.linalg.triangular_solve(
        a, y if left else y.swapaxes(1, 2), left_side=left, lower=lower, transpose_a=transpose, unit_diagonal=unit
      )
      for left, lower, transpose, unit in itertools.product([True, False], repeat=4)
      if not (unit and left)
    ]
    return lax.linalg.cholesky(positive), solved

  _check(function, a / np.float32(np.sqrt(size)), y, positive, consumers=["onnx"], rtol=2e-4, atol=1e-4)


def test_extremes_scattered_without_their_op():
  x = np.float32([[1, -5], [2, np.nan], [-np.inf, 0], [3, 3]])
  updates = np.float32([[4, -9], [0, 7], [9, 9], [np.nan, np.inf], [-np.inf, 2]])
  at = np.int32([3, 0, 7, 2, 0])

  def function(x, at, updates):
    y = jnp.asarray(x)
    numbers = jnp.arange(4).at[at].max(jnp.arange(5) - 2, mode="drop")
    return y.at[at].max(updates), y.at[at].min(updates), y.at[at, at % 2].max(updates[:, 0], mode="clip"), numbers

  _check(function, x, at, updates)
  large = np.zeros((1 << 12, 3), np.float32)
  with pytest.raises(
    UnsupportedPrimitiveError, match=r"the op TensorScatterMax, and without it 1024 updates of \(4096"
  ):
    _program(lambda x, at: jnp.asarray(x).at[at].max(1.0), [large, np.zeros(1024, np.int32)], "onnx")


def test_what_a_consumer_lacks_is_named():
  with pytest.raises(UnsupportedPrimitiveError, match="the converter to onnx does not read the op Lgamma"):
    _program(lax.lgamma, [_LINE], "onnx")


def test_a_target_other_than_a_consumer_is_an_error():
  with pytest.raises(ConversionError, match="so target='tensorflow-2.16' would have no effect. .* target='onnx'"):
    _program(lax.sin, [_LINE], "tensorflow-2.16")
