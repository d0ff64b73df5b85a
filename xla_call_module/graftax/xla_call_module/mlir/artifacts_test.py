"""Portable artifacts against those that JAX writes, and HLO that XLA writes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.xla_call_module import Module, embed, errors, lift
from graftax.xla_call_module.mlir import decode_bytes, from_hlo, oldest_version, serialize, to_text

_TEXT = """func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.abs %x : tensor<3xf32>
  return %0 : tensor<3xf32>
}"""
_X = jax.ShapeDtypeStruct((3,), jnp.float32)


def test_an_artifact_of_jax_and_its_text_are_the_same_module():
  data = jax.export.export(jax.jit(lambda x: jnp.sin(x) + 1))(_X).mlir_module_serialized
  text = to_text(data)
  assert "stablehlo.sine" in text
  ops = [[op.name for op in decode_bytes(d).main.body.ops] for d in (data, serialize(text))]
  assert ops[0] == ops[1] and "stablehlo.sine" in ops[0]


def test_an_older_version_is_written_unless_a_dtype_is_newer():
  oldest = oldest_version()
  assert f"StableHLO_v{oldest}".encode() in serialize(_TEXT, version=oldest)
  # This dtype exists since StableHLO 1.8.
  text = _TEXT.replace("stablehlo.abs", "stablehlo.negate").replace("xf32", "xf8E8M0FNU")
  assert b"StableHLO_v1.8.0" in serialize(text, version="1.8.0")
  with pytest.raises(errors.VersionError, match="cannot be written as StableHLO 1.7.0: "):
    serialize(text, version="1.7.0")


def test_a_text_that_is_no_version_is_refused():
  with pytest.raises(errors.VersionError, match="cannot be written as StableHLO newest"):
    serialize(_TEXT, version="newest")


@pytest.mark.parametrize("data", [b"ML\xefR\x00", "func.func @main(", _TEXT.encode()[:40]])
def test_damaged_modules_are_refused(data):
  with pytest.raises(errors.DecodeError):
    serialize(data)
  with pytest.raises(errors.DecodeError):
    to_text(data)


def test_hlo_of_xla_becomes_the_function_that_it_was():
  hlo = jax.jit(lambda x: jnp.tanh(x) * 2).lower(_X).compiler_ir("hlo").as_serialized_hlo_module_proto()
  module = decode_bytes(from_hlo(hlo))
  assert {"stablehlo.tanh", "stablehlo.multiply"} <= {op.name for op in module.main.body.ops}
  assert [kind.dtype for kind in module.main.types] == [np.dtype(np.float32)]


def test_damaged_hlo_is_refused():
  with pytest.raises(errors.DecodeError, match="HLO module of 3 bytes does not convert"):
    from_hlo(b"\xff\xff\xff")


@pytest.mark.parametrize("guard", [True, False])
def test_an_artifact_of_early_2023_does_not_name_its_version(guard):
  current = serialize(_TEXT)
  end = current.index(b"\0", 5)
  # Its producer is "MLIR" with the version of MLIR; other bytes stay where they are.
  data = current[:5] + b"MLIRxxx-trunk".ljust(end - 5, b"-") + current[end:]
  module = Module.from_bytes(data, guard=guard)
  np.testing.assert_array_equal(lift(module)(np.array([-1, 2, -3], np.float32))[0], [1, 2, 3])
  np.testing.assert_array_equal(embed(module)(np.array([-1, 2, -3], np.float32))[0], [1, 2, 3])
