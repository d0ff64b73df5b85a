"""Versions, argument types and attributes of modules, as JAX exports them and as damaged files have them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.xla_call_module import errors, ir
from graftax.xla_call_module.calling_convention import (
  NEWEST_CALL_MODULE_VERSION,
  OLDEST_CALL_MODULE_VERSION,
  ArgumentSpec,
  argument_specs,
  attribute_text,
  check_version,
  declared_spec,
  dimension_argument,
  is_integer_scalar,
  main_function,
)
from graftax.xla_call_module.mlir import decode_bytes, decode_text
from graftax.xla_call_module.module import Module
from graftax.xla_call_module.signature import Leaf

_FLOATS = ir.TensorType((2, None), np.dtype(np.float32))


def test_the_versions_that_jax_writes_are_supported():
  for version in range(jax.export.minimum_supported_calling_convention_version, NEWEST_CALL_MODULE_VERSION + 1):
    check_version(version, "calling convention")
  check_version(jax.export.maximum_supported_calling_convention_version, "calling convention")


@pytest.mark.parametrize(
  ("version", "hint"),
  [(OLDEST_CALL_MODULE_VERSION - 1, "holds MHLO"), (NEWEST_CALL_MODULE_VERSION + 1, "an older calling convention")],
)
def test_other_versions_are_refused(version, hint):
  with pytest.raises(errors.VersionError, match=rf"XlaCallModule version {version} .* 2 to 10 \(.*{hint}"):
    check_version(version, "XlaCallModule")


def test_types_are_those_of_an_exported_function():
  exported = jax.export.export(jax.jit(lambda x, n: (x * n, jnp.sum(x))))(
    jax.ShapeDtypeStruct(jax.export.symbolic_shape("b, 3"), jnp.float32), jax.ShapeDtypeStruct((), jnp.int32)
  )
  main = main_function(decode_bytes(exported.mlir_module_serialized))
  assert [is_integer_scalar(kind) for kind in main.types] == [False, True]
  floats, integers = (aval.dtype for aval in exported.in_avals)
  assert argument_specs(main.types, "argument") == (ArgumentSpec((None, 3), floats), ArgumentSpec((), integers))
  assert argument_specs(main.result_types, "result") == (ArgumentSpec((None, 3), floats), ArgumentSpec((), floats))


def test_tokens_are_no_arguments_and_tuples_are_refused():
  text = """func.func @main(%t: !stablehlo.token, %x: tensor<2xf32>) -> tuple<tensor<2xf32>> {
    %0 = stablehlo.tuple %x : tuple<tensor<2xf32>>
    return %0 : tuple<tensor<2xf32>>
  }"""
  main = main_function(decode_text(text))
  assert argument_specs(main.types, "argument") == (ArgumentSpec((2,), np.dtype(np.float32)),)
  with pytest.raises(errors.UnsupportedModuleError, match="main has a result of type .*no counterpart"):
    argument_specs(main.result_types, "result")


def test_a_module_without_main_names_its_functions():
  text = "func.func @serve(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }"
  with pytest.raises(errors.UnsupportedModuleError, match="no function 'main'; it has 'serve'. Rename"):
    main_function(decode_text(text))


@pytest.mark.parametrize(("spec", "found"), [("0.1", (0, 1)), (b"12.3", (12, 3))])
def test_dimension_arguments(spec, found):
  assert dimension_argument(spec) == found


@pytest.mark.parametrize("spec", ["", "1", "1.", "a.b", "-1.0", "1.2.3", "1.0\n", "9" * 10 + ".0", b"\xff.0"])
def test_other_dimension_arguments_are_damage(spec):
  with pytest.raises(errors.DecodeError, match="dim_args_spec entry|not UTF-8"):
    dimension_argument(spec)


def test_text_of_attributes():
  assert attribute_text("CPU") == attribute_text(b"CPU") == "CPU"
  with pytest.raises(errors.DecodeError, match="not UTF-8"):
    attribute_text(b"\xff" * 100)


@pytest.mark.parametrize(
  ("leaf", "kind", "expected"),
  [
    (Leaf("args[0]", (2, "n"), "float32"), _FLOATS, ArgumentSpec((2, None), np.dtype(np.float32))),
    (Leaf("args[0]", (2, 3), "float32"), None, ArgumentSpec((2, 3), np.dtype(np.float32))),
    (Leaf("args[0]", (2,), "float0"), ir.TensorType((2,), np.dtype(np.bool_)), ArgumentSpec((2,), np.dtype(np.bool_))),
    (
      *(Leaf("args[0]", (4,), "key<fry>"), ir.TensorType((4, 2), np.dtype(np.uint32))),
      ArgumentSpec((4, 2), np.dtype(np.uint32)),
    ),
    (
      *(Leaf("args[0]", (2,), "float8_e4m3"), ir.TensorType((2,), jnp.dtype("float8_e3m4"))),
      ArgumentSpec((2,), jnp.dtype("float8_e3m4")),
    ),
  ],
)
def test_declared_types(leaf, kind, expected):
  assert declared_spec(leaf, kind, {"key<fry>": (2,)}) == expected


@pytest.mark.parametrize(
  "leaf", [Leaf("args[0]", (2,), "float32"), Leaf("args[0]", (3, 1), "float32"), Leaf("args[0]", (2, 1), "float64")]
)
def test_a_declared_type_that_main_does_not_have_is_damage(leaf):
  with pytest.raises(errors.DecodeError, match="as the Exported declares it"):
    declared_spec(leaf, _FLOATS, {})


def test_donated_arguments_are_those_that_jax_marks():
  donating = jax.jit(lambda x, y: (x + y, y * 2), donate_argnums=1)
  spec = jax.ShapeDtypeStruct((2,), jnp.float32)
  module = Module.from_exported(jax.export.export(donating)(spec, spec))
  assert [leaf.is_donated for leaf in module.signature.inputs] == [False, True]
