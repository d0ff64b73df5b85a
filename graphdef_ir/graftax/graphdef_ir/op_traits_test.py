"""The table of op traits against the op table."""

import pytest

from graftax.graphdef_ir import op_signature, traits_of
from graftax.graphdef_ir.op_traits import ops_with_traits

_OPS = sorted(ops_with_traits())


@pytest.mark.parametrize("op", _OPS)
def test_traits_agree_with_the_signature(op: str):
  signature = op_signature(op)
  traits = traits_of(op)
  functions = {name for name, attr in signature.attrs.items() if attr.type in ("func", "list(func)")}
  assert set(traits.functions) == functions
  assert (traits.calls is not None) == bool(functions)
  if functions:
    arguments = signature.inputs[-1]
    assert arguments.type_list_attr, "the arguments of the function come last"
    # `For` passes one of its three bounds.
    assert traits.first_argument == len(signature.inputs) - 1 - (op == "For")
  assert (traits.reference is not None) == (op.startswith("Ref"))
  if traits.effect is not None:
    assert signature.is_stateful or any(arg.is_ref for arg in (*signature.inputs, *signature.outputs))
  if traits.is_alias or traits.same_elements or traits.assigns or traits.fills or traits.reads_shapes:
    assert signature.inputs


def test_an_op_that_is_not_listed_has_no_traits():
  assert traits_of("Relu") == traits_of("NoSuchOp")
