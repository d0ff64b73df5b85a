import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.xla_call_module import ArgumentError, Module, lift
from graftax.xla_call_module.arguments import check


def _takes(kind: str) -> Module:
  return Module.from_text(f"module {{ func.func public @main(%x: {kind}) -> {kind} {{\n return %x : {kind} }} }}")


@pytest.mark.parametrize(
  "kind, given, dtype",
  [
    ("f32", 1, np.float32),
    ("f32", True, np.float32),
    ("bf16", 1.5, jnp.bfloat16),
    ("i8", -128, np.int8),
    ("ui8", 255, np.uint8),
    ("i1", True, np.bool_),
    ("complex<f32>", 2, np.complex64),
  ],
)
def test_python_scalar_that_fits_takes_the_declared_dtype(kind, given, dtype):
  (array,) = check(_takes(f"tensor<{kind}>"), [given])
  assert array.dtype == dtype and array == given


@pytest.mark.parametrize(
  "kind, given",
  [
    ("i32", 1.0),
    ("i8", 128),
    ("ui8", -1),
    ("i1", 1),
    ("f32", 1j),
    ("i32", 2**70),
    ("f32", 2**70 + 0j),
    ("f16", 1e5),
    ("f8E4M3FN", 1e3),
    ("complex<f32>", 1e39),
  ],  # fmt: skip
)
def test_python_scalar_that_does_not_fit_raises(kind, given):
  with pytest.raises(ArgumentError, match=r"argument 0: the Python scalar .* does not fit"):
    check(_takes(f"tensor<{kind}>"), [given])


@pytest.mark.parametrize(
  "given, message",
  [
    (np.zeros((2, 3), np.float64), r"argument 0: got float64\[2, 3\], the module takes float32\[2, 3\]. Convert it"),
    (np.zeros((3, 2), np.float32), r"argument 0: got float32\[3, 2\], the module takes float32\[2, 3\].$"),
    ([[1.0, 2.0, 3.0]] * 2, "arguments are never converted silently"),
    (1.0, r"argument 0: got float32\[\]"),
  ],
)
def test_array_of_another_type_raises_and_both_are_named(given, message):
  with pytest.raises(ArgumentError, match=message):
    check(_takes("tensor<2x3xf32>"), [given])


def test_wrong_number_of_arguments_names_what_is_taken():
  with pytest.raises(ArgumentError, match=r"takes 1 arguments \(float32\[2\]\); got 2"):
    lift(_takes("tensor<2xf32>"))(np.zeros(2, np.float32), 1.0)


def test_open_dimension_takes_any_size():
  for size in (0, 3):
    (array,) = check(_takes("tensor<?xf32>"), [np.zeros(size, np.float32)])
    assert array.shape == (size,)


def test_random_keys_are_passed_as_their_data():
  key = jax.random.key(5)
  (data,) = check(_takes("tensor<2xui32>"), [key])
  np.testing.assert_array_equal(data, jax.random.key_data(key))
