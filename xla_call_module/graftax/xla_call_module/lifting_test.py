import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from graftax.xla_call_module import ArgumentError, Module, X64Error, embed, lift, register

_X = np.arange(4, dtype=np.float32)


def _sine64(kind: str) -> Module:
  return Module.from_text(f"""module {{ func.func public @main(%a: tensor<4x{kind}>) -> tensor<4x{kind}> {{
    %0 = stablehlo.convert %a : (tensor<4x{kind}>) -> tensor<4xf64>
    %1 = stablehlo.sine %0 : tensor<4xf64>
    %2 = stablehlo.convert %1 : (tensor<4xf64>) -> tensor<4x{kind}>
    return %2 : tensor<4x{kind}> }} }}""")


def test_64_bit_module_without_x64_raises():
  with pytest.raises(X64Error, match=r"argument 0 of the module is float64\[4\]"):
    lift(_sine64("f64"))(_X)
  with pytest.raises(X64Error, match=r"stablehlo.convert .*computes in 64 bits"):
    lift(_sine64("f32"))(_X)


def test_64_bit_module_runs_when_enabled_for_it():
  function = lift(_sine64("f32"), x64="enable")
  np.testing.assert_allclose(jax.jit(function)(_X)[0], np.sin(_X), rtol=1e-6)
  np.testing.assert_allclose(jax.grad(lambda x: function(x)[0].sum())(_X), np.cos(_X), rtol=1e-6)
  wide = lift(_sine64("f64"), x64="enable")(_X.astype(np.float64))[0]
  assert wide.dtype == np.float64
  np.testing.assert_allclose(wide, np.sin(_X.astype(np.float64)), rtol=1e-12)


_COUNT = """module {{ func.func public @main(%a: tensor<4xui32>) -> tensor<4xui32> {{
  %0 = stablehlo.iota dim = 0 : tensor<4xui64>
  %1 = stablehlo.constant dense<{factor}> : tensor<4xui64>
  %2 = stablehlo.multiply %0, %1 : tensor<4xui64>
  %3 = stablehlo.convert %2 : (tensor<4xui64>) -> tensor<4xui32>
  %4 = stablehlo.add %a, %3 : tensor<4xui32>
  return %4 : tensor<4xui32> }} }}"""


def test_64_bit_integers_that_fit_are_narrowed_and_others_never():
  x = np.arange(4, dtype=np.uint32)
  np.testing.assert_array_equal(lift(Module.from_text(_COUNT.format(factor=1000)))(x)[0], x * 1001)
  with pytest.raises(X64Error, match="stablehlo.convert at .* computes in 64 bits"):
    lift(Module.from_text(_COUNT.format(factor=2**31)))(x)


def test_random_module_that_counts_in_64_bits_lifts_without_x64():
  def function(k):
    return jax.random.normal(jax.random.split(jax.random.wrap_key_data(k), 3)[1], (5,))

  key = np.array([1, 2], np.uint32)
  lifted = lift(Module.from_exported(jax.export.export(jax.jit(function))(key)))
  np.testing.assert_allclose(lifted(key)[0], function(key), rtol=1e-6)


def test_sharding_is_recorded_without_a_mesh_and_kept_with_one():
  mesh = Mesh(np.array(jax.devices()[:1]), ("d",))

  def function(x):
    return jax.lax.with_sharding_constraint(x * 2, NamedSharding(mesh, PartitionSpec("d")))

  module = Module.from_exported(jax.export.export(jax.jit(function))(jax.ShapeDtypeStruct((4,), np.float32)))
  lifted = lift(module)
  np.testing.assert_array_equal(lifted(_X)[0], _X * 2)
  (record,) = lifted.records
  assert record.kind == "sharding" and "no mesh was given" in record.note
  sharded = lift(module, mesh=mesh)
  assert "sharding_constraint" in str(jax.make_jaxpr(sharded)(_X)) and not sharded.records
  shardings = NamedSharding(mesh, PartitionSpec("d"))
  np.testing.assert_array_equal(jax.jit(lifted, in_shardings=shardings, out_shardings=(shardings,))(_X)[0], _X * 2)


def test_gspmd_sharding_becomes_a_constraint():
  text = """module { func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.custom_call @Sharding(%a) {mhlo.sharding = "{devices=[1]<=[1]}"} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32> } }"""
  module = Module.from_text(text)
  lifted = lift(module)
  np.testing.assert_array_equal(lifted(_X)[0], _X)
  assert lifted.records[0].kind == "sharding"
  mesh = Mesh(np.array(jax.devices()[:1]), ("d",))
  assert "sharding_constraint" in str(jax.make_jaxpr(lift(module, mesh=mesh))(_X))


@pytest.mark.parametrize("make", [lift, embed])
def test_options_are_checked(make):
  with pytest.raises(ValueError, match=r"gradient='x'; expected one of"):
    make(_sine64("f32"), gradient="x")


def test_scalars_take_the_declared_dtype():
  module = Module.from_exported(jax.export.export(jax.jit(lambda x: x * 2))(jax.ShapeDtypeStruct((), jnp.bfloat16)))
  assert lift(module)(1.5)[0].dtype == jnp.bfloat16


@pytest.mark.parametrize(
  ("answer", "made"),
  [
    (lambda x: x[:2], r"float32\[2\]"),
    (lambda x: x.astype(np.int32), r"int32\[3\]"),
    (lambda x: (x, x), r"float32\[3\], float32\[3\]"),
    (lambda x: None, "NoneType"),
  ],
)
def test_what_callbacks_return_is_checked(answer, made):
  message = rf"stablehlo.custom_call at -:2:8 \(own\) returned \({made}\); the module declares \(float32\[3\]\)"
  module = Module.from_text(_OWN_CALL)
  with pytest.raises(ArgumentError, match=message):
    lift(module, custom_calls={"own": lambda op, x: answer(x)})(np.ones(3, np.float32))


_OWN_CALL = """module { func.func public @main(%a: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.custom_call @own(%a) : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32> } }"""


@pytest.mark.parametrize(
  ("options", "message"),
  [
    ({"mesh": 3}, "mesh=3; expected a jax.sharding.Mesh"),
    ({"platform": 3}, "platform=3; expected a name"),
    ({"custom_calls": ["own"]}, r"custom_calls=\['own'\]; expected a dict"),
    ({"custom_calls": {"own": 1}}, r"custom_calls\['own'\]=1; expected a function"),
    ({"on_unsupported": 1}, "on_unsupported=1; expected a function"),
  ],
)
def test_types_of_options_are_checked(options, message):
  with pytest.raises(TypeError, match=message):
    lift(Module.from_text(_OWN_CALL), **options)


def test_register_wants_names():
  for wrong in (lambda: register()(len), lambda: register(len)):
    with pytest.raises(TypeError, match=r"expected strings, as in @register\('stablehlo.add'\)"):
      wrong()(len)
