"""Every lowering against the declaration of its op, and what registration refuses."""

import importlib
import pkgutil
from typing import TypedDict, Unpack

import numpy as np
import pytest

from graftax.graphdef_ir import op_signature
from graftax.ops_jax._core.errors import RegistrationError
from graftax.ops_jax._core.registry import lowering, register, supported_ops


@pytest.mark.parametrize("op", sorted(supported_ops()))
def test_lowering_takes_what_tensorflow_declares(op):
  declared, ours = op_signature(op), lowering(op)
  assert len(ours.inputs) == len(declared.inputs)
  # What is neither taken nor ignored would be an error for every graph that holds the op.
  assert declared.attrs.keys() <= ours.attrs.keys() | ours.ignores


@pytest.mark.parametrize(
  "room", ["array", "image", "linalg", "math", "nn", "optimizers", "quantization", "signal", "sparse", "state"]
)
def test_the_table_of_contents_of_a_room_quotes_each_module(room):
  package = importlib.import_module(f"graftax.ops_jax.{room}")
  names = [name for _, name, _ in pkgutil.iter_modules(package.__path__) if not name.endswith("_test")]
  contents = " ".join(package.__doc__.split())
  for name in names:
    module = importlib.import_module(f"{package.__name__}.{name}")
    assert f"- `{name}`: {module.__doc__.splitlines()[0]}" in contents


@pytest.mark.parametrize(
  ("function", "match"),
  [
    (lambda x, *, factor: x, "'factor' has no type annotation"),
    (lambda *inputs: inputs, "neither an input nor an attribute"),
  ],
)
def test_register_refuses_what_is_no_schema(function, match):
  with pytest.raises(RegistrationError, match=match):
    register("RegistryTestOp")(function)
  assert lowering("RegistryTestOp") is None


def test_the_keys_of_an_unpacked_dictionary_are_attributes():
  class Shared(TypedDict, total=False):
    strides: tuple[int, ...]
    out_type: np.dtype

  def function(x, *, padding: str, **attrs: Unpack[Shared]):
    return x

  register("RegistryTestSharedAttrsOp")(function)
  read = lowering("RegistryTestSharedAttrsOp")
  assert read.attrs == {"padding": str, "strides": tuple[int, ...], "out_type": np.dtype}
  assert [parameter.name for parameter in read.inputs] == ["x"]


def test_register_refuses_a_second_lowering_unless_told():
  with pytest.raises(RegistrationError, match=r"lowers this op already; pass override=True"):
    register("MatMul")(lambda a, b: a)


def test_an_override_also_replaces_what_took_words():
  def first(x):
    return x

  register("RegistryTestWordsOp", int64_pairs="accept")(first)
  assert lowering("RegistryTestWordsOp", int64_pairs=True).function is first
  register("RegistryTestWordsOp", override=True)(lambda x: x)
  assert lowering("RegistryTestWordsOp", int64_pairs=True) is None
