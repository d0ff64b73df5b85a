import inspect
import itertools
import re
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.mlir.dialects import chlo, func, sdy, stablehlo
from jaxlib.mlir.dialects import mhlo

from graftax.xla_call_module import LiftError, Module, call, explain, lift, register, registry


def _defined_attributes() -> dict[str, set[str]]:
  """Returns the attributes of each op, as the accessors that MLIR generates from its definition name them."""
  found = {}
  for some_op in (stablehlo.AddOp, chlo.AcosOp, mhlo.AcosOp, func.CallOp.__base__, sdy.ReshardOp):
    source = Path(inspect.getsourcefile(some_op)).read_text()
    for text in re.split(r"^class ", source, flags=re.MULTILINE):
      if name := re.search(r'OPERATION_NAME = "(.*)"', text):
        used = re.findall(r'\.attributes\["(\w+)"\]|"(\w+)" (?:not )?in self\.operation\.attributes', text)
        found.setdefault(name[1], set()).update(filter(None, itertools.chain(*used)))
  return found


# What lifting makes of a select, of a sort and a slice and of code such as a softmax, and a name that old StableHLO
# has and the bindings do not.
_WITHOUT_DEFINITION = {"graftax.select_infinite", "graftax.shifted", "graftax.top_k", "stablehlo.func.call"}
# Ops that the bindings of JAX 0.10.2 have first.
_NEW_OPS = {"chlo.mulhi", "mhlo.mulhi"}
# Attributes that lowerings know: since JAX 0.10.2 or 0.12, and of an op of ours.
_NEW_ATTRIBUTES = {
  "chlo.scan": {"scan_dim_size"},
  "chlo.top_k": {"is_stable"},
  "graftax.select_infinite": {"infinity", "on_true"},
  "graftax.top_k": {"k"},
  "mhlo.topk": {"is_stable"},
}
# Attributes with which an op does not lift; the second since JAX 0.12.
_REFUSED_ATTRIBUTES = {"mhlo.copy": {"cross_program_prefetch_index"}}
_NEWLY_REFUSED_ATTRIBUTES = {"stablehlo.collective_broadcast": {"has_dynamic_root"}}


def test_lowerings_know_the_attributes_of_their_ops_and_no_others():
  defined = _defined_attributes()
  assert len(defined) > 120 and defined["stablehlo.sort"] == {"dimension", "is_stable"}
  checked = {name: rule for name, rule in registry.ops.items() if rule.attributes is not None}
  assert set(checked) - set(defined) - _NEW_OPS == _WITHOUT_DEFINITION
  unknown = {name: missing for name, rule in checked.items() if (missing := defined.get(name, set()) - rule.attributes)}
  assert unknown in (_REFUSED_ATTRIBUTES, _REFUSED_ATTRIBUTES | _NEWLY_REFUSED_ATTRIBUTES)
  names = {*defined, *_NEW_ATTRIBUTES}
  defined = {name: defined.get(name, set()) | _NEW_ATTRIBUTES.get(name, set()) for name in names}
  # Ops that share a lowering share what it declares.
  union: dict[Any, set[str]] = {}
  for name, rule in checked.items():
    union.setdefault((rule.function.__code__, rule.attributes), set()).update(defined.get(name, ()))
  undefined = {attributes - names for (_, attributes), names in union.items()}
  assert undefined == {frozenset()}


def _module(op: str) -> Module:
  return Module.from_text(f"""func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {{
    %0 = {op} : tensor<2xf32>
    return %0 : tensor<2xf32> }}""")


def test_unknown_attribute_raises_with_its_name_and_value():
  module = _module("stablehlo.add %a, %a {rounding = 3 : i32}")
  message = (
    r"stablehlo\.add at .* does not lift: its lowering does not support rounding = 3, which may change the result"
  )
  with pytest.raises(LiftError, match=message):
    lift(module)(np.ones(2, np.float32))
  (obstacle,) = explain(module).obstacles
  assert obstacle.op == "stablehlo.add" and "rounding = 3" in obstacle.reason


def test_unknown_attribute_raises_before_the_op_is_folded():
  module = Module.from_text("""func.func @main() -> tensor<2xi32> {
    %0 = stablehlo.constant dense<1> : tensor<2xi32>
    %1 = stablehlo.add %0, %0 {saturate} : tensor<2xi32>
    return %1 : tensor<2xi32> }""")
  with pytest.raises(LiftError, match="does not support saturate = True"):
    lift(module)()


def test_attributes_of_other_dialects_are_annotations():
  module = _module('stablehlo.add %a, %a {mhlo.note = "x", jax.arg_info = 1 : i32, xla_shape = "f32[2]"}')
  np.testing.assert_array_equal(call(module, jnp.ones(2))[0], [2, 2])


def test_registered_lowering_reads_the_attributes_that_it_declares():
  module = _module("stablehlo.sine %a {factor = 3.0 : f32}")
  before = registry.ops["stablehlo.sine"]
  try:
    register("stablehlo.sine", attributes=["factor"], override=True)(lambda context, op, x: x * op.attrs["factor"])
    np.testing.assert_array_equal(lift(module)(np.ones(2, np.float32))[0], [3, 3])
  finally:
    registry.ops["stablehlo.sine"] = before
