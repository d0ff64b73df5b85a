"""Compares every lowering with the declaration of its op, and checks the errors of registration."""

import collections
import inspect
import subprocess
import sys
from typing import TypedDict, Unpack

import numpy as np
import pytest

from graftax.graphdef_ir import op_signature
from graftax.ops_jax._core.errors import RegistrationError
from graftax.ops_jax._core.registry import lowering, register, supported_ops
from graftax.ops_jax.binding.attributes import decode_attr

# Inputs whose name differs from the op table, because several ops with different names share a lowering.
_OTHER_INPUT_NAMES = {
  ("CountUpTo", "ref"): "resource",
  ("DeepCopy", "x"): "input",
  ("ScatterNdNonAliasingAdd", "input"): "tensor",
}
# Attributes with a Python default that the op table does not have, with the reason.
_OUR_DEFAULTS = {
  "CheckNumerics.message": "only used in messages",
  "CheckNumericsV2.message": "only used in messages",
  "Pack.T": "other lowerings call this function with lists that may be empty",
  "Placeholder.shape": "None is a shape of unknown rank",
  "PlaceholderV2.shape": "None is a shape of unknown rank",
  "TensorListGather.element_dtype": "other lowerings call these functions with lists that know their dtype",
  "TensorListGetItem.element_dtype": "as TensorListGather",
  "TensorListPopBack.element_dtype": "as TensorListGather",
  "TensorListPushBack.element_dtype": "as TensorListGather",
  "TensorListSetItem.element_dtype": "as TensorListGather",
  "TensorListStack.element_dtype": "as TensorListGather",
}
_OPS = sorted(supported_ops())
_LOWERINGS = [(op, ours) for op in _OPS for pairs in (False, True) if (ours := lowering(op, int64_pairs=pairs))]


def _with_ids(pairs):
  return pytest.mark.parametrize(("op", "ours"), pairs, ids=[op for op, _ in pairs])


@_with_ids(_LOWERINGS)
def test_inputs_have_the_names_and_the_order_of_the_op_table(op, ours):
  names = [_OTHER_INPUT_NAMES.get((op, arg.name), arg.name) for arg in op_signature(op).inputs]
  assert [parameter.name for parameter in ours.inputs] == names


@_with_ids(_LOWERINGS)
def test_every_attribute_of_the_op_table_is_taken_or_ignored(op, ours):
  # An attribute that is neither would be an error for every graph with this op.
  assert op_signature(op).attrs.keys() <= ours.attrs.keys() | ours.ignores


@_with_ids(_LOWERINGS)
def test_defaults_are_those_of_the_op_table(op, ours):
  declared = op_signature(op).attrs
  for name, parameter in inspect.signature(ours.function).parameters.items():
    if name not in declared or parameter.default is parameter.empty or f"{op}.{name}" in _OUR_DEFAULTS:
      continue
    assert declared[name].default is not None, name
    default = decode_attr(declared[name].default, ours.attrs[name])
    # The table holds floats as float32.
    ours_default = parameter.default
    if isinstance(default, float):  # the table holds float32
      default, ours_default = np.float32(default), np.float32(ours_default)
    assert ours_default == default, name


_LOOKUPS = """
import sys
from graftax.ops_jax import lowering

assert lowering("Relu").function.__module__ == "graftax.ops_jax.nn.activations"
assert lowering("AddV2", int64_pairs=True).function.__module__ == "graftax.ops_jax.int64_pairs.arithmetic_ops"
assert "graftax.ops_jax.image.resize" not in sys.modules
"""
_OLD_TABLE = """
from graftax.ops_jax import lowering
from graftax.ops_jax._core.lowering_modules import LOWERING_MODULES

LOWERING_MODULES["image.resize"] = ""
LOWERING_MODULES["math.unary"] += " Svd"
for op in ("ResizeBilinear", "Svd"):
  assert lowering(op).attrs is not None
assert lowering("NoSuchOp") is None
"""
# Prints which of its ops each row of the table registers in a process of its own, and at last what all modules
# register. Forks before JAX has threads.
_EACH_ALONE = """
import os
from graftax.ops_jax._core import registry

def found(ops):
  return sorted((op, op in registry._REGISTRATIONS, op in registry._PAIR_REGISTRATIONS) for op in ops)

ops_of = {}
for op, modules in registry._modules_by_op().items():
  ops_of.setdefault(tuple(modules), []).append(op)
for ops in ops_of.values():
  child = os.fork()
  if not child:
    registry._import_modules_of(ops[0])
    print(found(ops), flush=True)
    os._exit(0)
  os.waitpid(child, 0)
registry._load_lowerings()
for ops in ops_of.values():
  print(found(ops))
"""


@pytest.mark.parametrize("program", [_LOOKUPS, _OLD_TABLE], ids=["lookups", "old_table"])
def test_modules_are_imported_for_the_ops_that_are_looked_up(program):
  _output(program)


def test_the_modules_of_an_op_register_all_that_is_registered_for_it():
  lines = _output(_EACH_ALONE).splitlines()
  alone, together = lines[: len(lines) // 2], lines[len(lines) // 2 :]
  assert alone == together and len(alone) > 100


def _output(program):
  child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
  assert child.returncode == 0, child.stderr
  return child.stdout


def test_no_lowering_has_a_name_that_cannot_be_looked_up():
  # A printed kernel names its lowering.
  assert [ours.function.__qualname__ for _, ours in _LOWERINGS if "<" in ours.function.__qualname__] == []


def test_attributes_that_lowerings_name_exist():
  """A module may name attributes once for all its ops, so each must exist in one of them."""
  named, declared = collections.defaultdict(set), collections.defaultdict(set)
  for op, ours in _LOWERINGS:
    named[ours.function.__module__] |= ours.ignores | ours.attrs.keys()
    declared[ours.function.__module__] |= op_signature(op).attrs.keys()
  assert {module: wrong for module in named if (wrong := named[module] - declared[module])} == {}


def test_every_deviation_from_the_op_table_is_still_one():
  by_op = dict(_LOWERINGS)
  for op, name in _OTHER_INPUT_NAMES:
    assert name in {arg.name for arg in op_signature(op).inputs} - {parameter.name for parameter in by_op[op].inputs}
  for key in _OUR_DEFAULTS:
    op, name = key.split(".")
    declared = op_signature(op).attrs[name].default
    ours = lowering(op)
    assert declared is None or inspect.signature(ours.function).parameters[name].default != decode_attr(
      declared, ours.attrs[name]
    )


def _with_list(x, *, strides: list[int]):
  return x


@pytest.mark.parametrize(
  ("function", "match"),
  [
    (_with_list, r"'strides' is annotated as list\[int\]; .* Write tuple\[int, ...\]"),
    (lambda x, *, factor: x, "'factor' has no type annotation"),
    (lambda *inputs: inputs, "neither an input nor an attribute"),
  ],
)
def test_register_raises_for_a_signature_that_is_not_a_schema(function, match):
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


def test_register_raises_for_a_second_lowering_without_override():
  with pytest.raises(RegistrationError, match=r"lowers this op already; pass override=True"):
    register("MatMul")(lambda a, b: a)


def test_an_override_also_replaces_the_lowering_for_pairs():
  def first(x):
    return x

  register("RegistryTestWordsOp", int64_pairs="accept")(first)
  assert lowering("RegistryTestWordsOp", int64_pairs=True).function is first
  register("RegistryTestWordsOp", override=True)(lambda x: x)
  assert lowering("RegistryTestWordsOp", int64_pairs=True) is None
