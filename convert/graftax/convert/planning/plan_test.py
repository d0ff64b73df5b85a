"""Plans and their evaluation on programs written by hand: order, effects, liveness, errors. No TensorFlow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.convert import ConvertOptions, ParameterError, convert_program
from graftax.convert.planning.plan import Planner
from graftax.graphdef_ir import DType, FunctionRef
from graftax.graphdef_ir.errors import DanglingInputError
from graftax.ops_jax import InvalidInputError, UnsupportedOpError, lowering, read_lowering, register
from graftax.testing.graph_builders import const, function, node, program

F = {"T": DType.FLOAT}


def _plan(root, library=()):
  p = program(root, library)
  return Planner(p.library, p.signatures, ConvertOptions()).plan_root(root)


def _call(root, *args, library=(), variables=None):
  fn, params = convert_program(program(root, library, variables))
  outputs, new_params = fn(params, *args)
  return [np.asarray(o) for o in outputs], {k: np.asarray(v) for k, v in new_params.items()}


def test_nodes_run_in_data_order_whatever_order_they_are_written_in():
  root = function("f", ["x"], [node("b", "Neg", "a", **F), node("a", "Exp", "x", **F)], ["b"])
  assert [step.node.name for step in _plan(root).steps] == ["a", "b"]
  assert _call(root, 0.0)[0] == [-1]


def test_constants_and_identities_are_no_steps():
  root = function(
    "f", ["x"], [const("c", np.float32(2)), node("i", "Identity", "c", **F), node("m", "Mul", "x", "i", **F)], ["m"]
  )
  assert [step.node.op for step in _plan(root).steps] == ["Mul"]
  assert _call(root, 3.0)[0] == [6]


def test_what_an_annotated_function_holds_can_be_compiled_by_itself():
  fn, params = convert_program(program(function("f", ["x"], [node("b", "Neg", "x", **F)], ["b"])))
  outputs, _ = jax.jit(fn.fn)(params, 2.0)
  assert outputs[0] == -2


@pytest.mark.parametrize(
  "transform", [jax.vmap, jax.jit, lambda f: jax.jit(jax.vmap(f)), lambda f: lambda x: jax.linearize(jax.vmap(f), x)[0]]
)
def test_constants_are_folded_under_every_transform(transform):
  # Pow has a derivative of its own, which `vmap` keeps track of even where nothing is mapped.
  nodes = [const("two", np.float32(2)), const("three", np.float32(3)), node("c", "Pow", "two", "three", **F)]
  root = function("f", ["x"], [*nodes, node("y", "Mul", "x", "c", **F)], ["y"])
  fn, params = convert_program(program(root))
  np.testing.assert_array_equal(transform(lambda x: fn(params, x)[0][0])(np.float32([1, 2])), [8, 16])


def test_values_are_freed_after_their_last_read():
  root = function(
    "f", ["x"], [node("a", "Exp", "x", **F), node("b", "Neg", "a", **F), node("c", "Add", "b", "x", **F)], ["c"]
  )
  plan = _plan(root)
  x, a, b = plan.parameters[0], plan.steps[0].outputs[0], plan.steps[1].outputs[0]
  assert [set(step.frees) for step in plan.steps] == [set(), {a}, {b, x}]


def test_nodes_that_nothing_needs_do_not_run():
  dead = [node("s", "AsString", "x", **F), node("p", "PrintV2", "s"), node("d", "Exp", "x", **F)]
  root = function("f", ["x"], [*dead, node("y", "Neg", "x", control=("p",), **F)], ["y"], control_results=["p"])
  assert [step.node.name for step in _plan(root).steps] == ["y"]


READ = {"dtype": DType.FLOAT}


def test_assignments_happen_in_control_order_and_come_back():
  nodes = [
    node("before", "ReadVariableOp", "v", **READ),
    node("write", "AssignAddVariableOp", "v", "x", control=("before",), **READ),
    node("after", "ReadVariableOp", "v", control=("write",), **READ),
  ]
  root = function("f", ["x", "*v"], nodes, ["before", "after"], control_results=["write"])
  assert _call(root, 2.0, variables={"v": 1.0}) == ([1, 3], {"v": 3})


def test_effects_inside_called_functions_are_kept():
  inner = function("inner", ["x", "*v"], [node("w", "AssignVariableOp", "v", "x", **READ)], [], control_results=["w"])
  call = node(
    "call", "StatefulPartitionedCall", "x", "v", f=FunctionRef("inner"), Tin=(DType.FLOAT, DType.RESOURCE), Tout=()
  )
  root = function("f", ["x", "*v"], [call], ["x"], control_results=["call"])
  assert _call(root, 5.0, library=[inner], variables={"v": 1.0})[1] == {"v": 5}


def test_a_function_name_as_op_is_a_call():
  inner = function("double", ["x"], [node("y", "Add", "x", "x", **F)], ["y"])
  root = function("f", ["x"], [node("c", "double", "x")], ["c"])
  assert _call(root, 4.0, library=[inner])[0] == [8]


def test_unchanged_parameters_come_back_as_the_same_objects():
  root = function("f", ["x", "*v"], [node("r", "ReadVariableOp", "v", **READ), node("y", "Mul", "x", "r", **F)], ["y"])
  fn, params = convert_program(program(root, variables={"v": 3.0}))
  assert fn(params, 2.0)[1]["v"] is params["v"]


def test_parameters_are_never_known_while_tracing():
  root = function("f", ["x", "*v"], [node("r", "ReadVariableOp", "v", **READ), node("y", "Exp", "r", **F)], ["y"])
  fn, params = convert_program(program(root, variables={"v": 1.0}))
  gradient = jax.grad(lambda p: fn(p, 0.0)[0][0])(params)
  np.testing.assert_allclose(gradient["v"], np.exp(1), rtol=1e-6)


def test_all_unsupported_ops_are_listed_with_counts_and_places():
  inner = function("inner", ["x"], [node("a", "NoSuchOpA", "x"), node("b", "NoSuchOpA", "a")], ["b"])
  root = function("f", ["x"], [node("c", "inner", "x"), node("d", "NoSuchOpB", "c")], ["d"])
  with pytest.raises(UnsupportedOpError) as e:
    convert_program(program(root, [inner]))
  message = " ".join(str(e.value).split())
  assert "NoSuchOpA x2: 'a' in 'inner', 'b' in 'inner'" in message
  assert "NoSuchOpB x1: 'd' in 'f'" in message


def test_an_error_while_tracing_names_node_and_function():
  root = function("f", ["x", "y"], [node("bad", "Add", "x", "y", **F)], ["bad"])
  fn, params = convert_program(program(root))
  with pytest.raises((TypeError, ValueError)) as e:
    fn(params, jnp.zeros(2), jnp.zeros(3))
  assert "while evaluating Add node 'bad' in function 'f'" in "".join(e.value.__notes__)


def test_recursion_raises():
  root = function("loop", ["x"], [node("c", "loop", "x")], ["c"])
  fn, params = convert_program(program(root, [root]))
  with pytest.raises(NotImplementedError, match="'loop' calls itself"):
    fn(params, 1.0)


@pytest.mark.parametrize("params", [{}, {"v": 1.0, "w": 1.0}])
def test_missing_and_unknown_parameters_are_named(params):
  root = function("f", ["x", "*v"], [node("r", "ReadVariableOp", "v", **READ)], ["r"])
  fn, _ = convert_program(program(root, variables={"v": 3.0}))
  with pytest.raises(ParameterError, match=r"missing, \['v'\]|unknown, \['w'\]"):
    fn(params, 1.0)


def test_a_constant_where_a_variable_is_wanted_is_named():
  nodes = [const("v", np.float32(2)), node("w", "AssignAdd", "v", "x", **F)]
  with pytest.raises(InvalidInputError, match=r"AssignAdd node 'w' .* needs a variable; its input is a"):
    _call(function("f", ["x"], nodes, ["w"]), 1.0)


def test_a_tensor_that_nothing_makes_is_an_error():
  broken = function("broken", ["x"], [node("y", "Neg", "gone", T=DType.FLOAT)], ["y"])
  with pytest.raises(DanglingInputError, match=r"function 'broken', node 'y' \(Neg\): input 'gone' names none"):
    convert_program(program(broken))


@pytest.mark.parametrize(
  ("op", "raised"),
  [("PartitionedCall", TypeError), ("PartitionedCall", KeyError), ("If", ValueError), ("If", KeyError)],
)
def test_errors_of_lowerings_of_others_stay_theirs_inside_called_functions(op, raised):
  def elu(features):
    raise raised("not finished")

  inner = function("inner", ["x"], [node("own", "Elu", "x", **F)], ["own"])
  types = {"Tin": (DType.FLOAT,), "Tout": (DType.FLOAT,)}
  if op == "If":
    branch = FunctionRef("inner")
    call = node("call", op, "c", "x", Tcond=DType.FLOAT, then_branch=branch, else_branch=branch, **types)
  else:
    call = node("call", op, "x", f=FunctionRef("inner"), **types)
  root = function("f", ["x", "c"], [call], ["call"])
  original = lowering("Elu")
  register("Elu", ignores=("T",), override=True)(elu)
  try:
    fn, params = convert_program(program(root, [inner]))
    with pytest.raises(raised, match="not finished") as e:
      jax.jit(fn)(params, jnp.zeros(2), jnp.float32(1))
  finally:
    register("Elu", ignores=original.ignores, override=True)(original.function)
  assert type(e.value) is raised
  assert e.value.__notes__[0] == "while evaluating Elu node 'own' in function 'inner'"


def test_outputs_of_an_op_without_a_signature_that_nothing_reads_are_left_out():
  def kernel(reads):
    p = program(function("f", ["x"], [node("p", "OpOfNobody", "x"), node("y", "Neg", reads, **F)], ["y"]))
    found = read_lowering(lambda x: (x, -x)), lowering("Neg")
    planner = Planner(p.library, p.signatures, ConvertOptions(), find_lowering=lambda n, _: found[n.op == "Neg"])
    return planner.plan_root(p.function).steps[0].kernel

  assert kernel("p").run(None, [3.0]) == (3.0,)
  assert kernel("p:1").run(None, [3.0]) == (3.0, -3.0)
  with pytest.raises(InvalidInputError, match="OpOfNobody node 'p' .* output 2 is read; it has 2 outputs"):
    kernel("p:2").run(None, [3.0])
