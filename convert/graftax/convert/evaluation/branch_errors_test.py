"""Errors of lowerings that users register, within branches chosen by traced data."""

import jax
import numpy as np
import pytest

from graftax.convert import convert_program
from graftax.graphdef_ir import DType, FunctionRef
from graftax.ops_jax import InvalidInputError, register
from graftax.testing.graph_builders import const, function, node, program

_F = DType.FLOAT


@register("BranchErrorsTestOp")
def _faulty(x):
  raise TypeError(f"no rule for shape {x.shape}")


def _conditional(*then_nodes):
  """A program of `x` that calls a function of these nodes if `x > 0`, and returns `x` otherwise."""
  branches = {"then_branch": FunctionRef("then"), "else_branch": FunctionRef("else")}
  types = {"Tcond": DType.BOOL, "Tin": (_F,), "Tout": (_F,), "output_shapes": ()}
  nodes = [const("zero", np.float32(0)), node("positive", "Greater", "x", "zero", T=_F)]
  root = function("main", ["x"], [*nodes, node("y", "If", "positive", "x", **branches, **types)], ["y"])
  library = [
    function("then", ["x"], then_nodes, ["y"]),
    function("else", ["x"], [node("y", "Identity", "x", T=_F)], ["y"]),
  ]
  return program(root, library)


def _call_under_jit(prog):
  fn, params = convert_program(prog)
  return jax.jit(lambda x: fn(params, x)[0])(np.float32(2))


def test_a_type_error_of_a_users_lowering_in_a_branch_keeps_its_type():
  with pytest.raises(TypeError, match=r"no rule for shape \(\)") as caught:
    _call_under_jit(_conditional(node("y", "BranchErrorsTestOp", "x")))
  assert not isinstance(caught.value, InvalidInputError)
  assert "return results of different shapes" not in str(caught.value)


def test_branches_of_different_shapes_are_an_error_that_names_both():
  axis = const("axis", np.int32(0))
  with pytest.raises(InvalidInputError, match=r"'y'.*branches \['else', 'then'\] return results of different shapes"):
    _call_under_jit(_conditional(axis, node("y", "ExpandDims", "x", "axis", T=_F, Tdim=DType.INT32)))
