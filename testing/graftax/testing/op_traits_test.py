"""Tests that every op with traits can be converted, or has a recorded reason why not."""

import pytest

from graftax.graphdef_ir import traits_of
from graftax.graphdef_ir.op_traits import ops_with_traits
from graftax.ops_jax import reason_without_lowering, supported_ops


def _reason(op: str) -> str | None:
  traits = traits_of(op)
  if traits.control_flow_v1 is not None:
    return "raise_control_flow replaces it"
  if traits.makes == "stack":
    return "raise_control_flow replaces stacks by tensor lists"
  if traits.makes == "table" or traits.fills is not None:
    return "tables are computed while converting"
  if traits.effect == "dropped":
    return "nodes with this effect are dropped"
  return reason_without_lowering(op)


@pytest.mark.parametrize("op", sorted(ops_with_traits()))
def test_an_op_with_traits_has_a_lowering_or_a_reason(op):
  assert op in supported_ops() or _reason(op) is not None
