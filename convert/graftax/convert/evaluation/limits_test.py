"""Programs of a few nodes that ask for much memory or time end with an error that names the node and the limit."""

import dataclasses

import jax
import numpy as np
import pytest

from graftax.convert import ConvertOptions, LimitExceededError, Limits, convert_program
from graftax.graphdef_ir import DType, Function, FunctionRef, Parameter, Result, Tensor, TensorRef
from graftax.ops_jax import InvalidInputError
from graftax.testing.graph_builders import const, function, node, program

_F, _I = DType.FLOAT, DType.INT32
_X = np.float32(2)


def _call(name, callee, x):
  return node(name, "PartitionedCall", x, f=FunctionRef(callee), Tin=(_F,), Tout=(_F,))


def _if(name, callee, x):
  branches = {"then_branch": FunctionRef(callee), "else_branch": FunctionRef(callee)}
  return node(name, "If", x, x, **branches, Tcond=_F, Tin=(_F,), Tout=(_F,), output_shapes=())


def _while(name, body, *inputs):
  functions = {"cond": FunctionRef("cond"), "body": FunctionRef(body)}
  return node(name, "While", *inputs, **functions, T=(_F,) * len(inputs), output_shapes=(), parallel_iterations=10)


def _less(parameters, limit):
  nodes = (const("limit", np.float32(limit)), node("less", "Less", parameters[0], "limit", T=_F))
  result = Result("r", TensorRef("less"), DType.BOOL)
  return Function("cond", tuple(Parameter(name, _F) for name in parameters), (result,), nodes)


def _nested(make, depth, calls):
  functions = [function("f0", ["x"], [node("y", "Neg", "x", T=_F)], ["y"])]
  for level in range(1, depth + 1):
    names = ["x", *(f"call{i}" for i in range(calls))]
    nodes = [make(name, f"f{level - 1}", x) for x, name in zip(names, names[1:], strict=False)]
    functions.append(function(f"f{level}", ["x"], nodes, [names[-1]]))
  root = function("main", ["x"], [_call("y", f"f{depth}", "x")], ["y"])
  return program(root, [*functions, _less(["x"], 0)])


def _traced(prog, **limits):
  fn, params = convert_program(prog, ConvertOptions(limits=Limits(**limits)))
  return jax.make_jaxpr(lambda x: fn(params, x)[0])(_X)


def _run(prog, **limits):
  fn, params = convert_program(prog, ConvertOptions(limits=Limits(**limits)))
  return fn(params, _X)[0]


@pytest.mark.parametrize("make", [_call, _if, _while])
def test_functions_that_call_two_functions_each_are_not_walked_for_ever(make):
  with pytest.raises(
    LimitExceededError, match=r"function 'f\d+' needs more than \d+ steps.*the limit steps is"
  ) as caught:
    _traced(_nested(make, 25, 2), steps=20_000)
  assert caught.value.limit == "steps"


def test_calls_that_run_at_once_have_a_limit_of_their_own():
  with pytest.raises(LimitExceededError, match=r"the limit run_steps is \d+"):
    _run(_nested(_call, 25, 2), run_steps=20_000)


def test_programs_within_the_limits_have_their_results():
  (result,) = _run(_nested(_call, 3, 2))
  assert result == _X
  assert _traced(_nested(_if, 3, 2)).eqns


def test_functions_that_are_too_deep_name_the_limit():
  with pytest.raises(LimitExceededError, match=r"called by 'f\d+', needs 101 levels.*depth is 100"):
    _run(_nested(_call, 400, 1))


def test_branches_that_are_too_deep_for_python_are_no_recursion_error():
  with pytest.raises(LimitExceededError, match=r"main: .*too deep inside each other.*sys.setrecursionlimit"):
    _traced(_nested(_if, 400, 1), depth=1000)


@pytest.mark.parametrize("limit", [2**31 - 1, -(2**31)])
def test_a_for_loop_of_too_many_steps_names_them(limit):
  with pytest.raises(LimitExceededError, match=r"For node 'loop' .*shape \[21474836\d\d\].*array_bytes"):
    _run(_for_loop(limit, 1 if limit > 0 else -1))


def test_a_for_loop_that_does_not_move_is_an_error():
  with pytest.raises(InvalidInputError, match=r"For node 'loop' \(function 'main'\): delta is 0"):
    _run(_for_loop(5, 0))


def _for_loop(limit, delta):
  body = Function(
    "body", (Parameter("i", _I), Parameter("y", _F)), (Result("r", TensorRef("s"), _F),), (node("s", "Sin", "y", T=_F),)
  )
  bounds = [const("start", np.int32(0)), const("limit", np.int32(limit)), const("delta", np.int32(delta))]
  loop = node("loop", "For", "start", "limit", "delta", "x", body=FunctionRef("body"), T=(_F,))
  return program(function("main", ["x"], [*bounds, loop], ["loop"]), [body])


@pytest.mark.parametrize("start", ["x1", "one"])
def test_a_loop_that_doubles_an_array_ends_at_the_limit(start):
  step = [const("step", np.float32(1)), node("i2", "AddV2", "i", "step", T=_F)]
  twice = [const("axis", np.int32(0)), node("c", "ConcatV2", "y", "y", "axis", N=2, T=_F, Tidx=_I)]
  body = function("body", ["i", "y"], [*step, *twice], ["i2", "c"])
  first = [const("zero", np.float32(0)), const("one", np.ones(1, np.float32)), const("shape", np.array([1], np.int32))]
  first += [node("x1", "Reshape", "x", "shape", T=_F, Tshape=_I), _while("loop", "body", "zero", start)]
  prog = program(function("main", ["x"], first, ["loop:1"]), [body, _less(["i", "y"], 60)])
  with pytest.raises(LimitExceededError, match="ConcatV2 node 'c' .* bytes for an array"):
    _run(prog, array_bytes=1 << 23)


def test_a_loop_whose_walk_takes_too_long_is_compiled_as_one_of_unknown_length():
  step = [const("step", np.float32(1)), node("i2", "AddV2", "i", "step", T=_F), node("s", "Sin", "y", T=_F)]
  body = function("body", ["i", "y"], step, ["i2", "s"])
  nodes = [const("zero", np.float32(0)), _while("loop", "body", "zero", "x")]
  prog = program(function("main", ["x"], nodes, ["loop:1"]), [body, _less(["i", "y"], 1000)])
  assert "scan" in str(_traced(prog))
  assert "while" in str(_traced(prog, walk_steps=1000))
  np.testing.assert_array_equal(_run(prog), _run(prog, walk_steps=1000))


def _of_one_node(nodes, result):
  return program(function("main", ["x"], nodes, [result]))


def _sizes(*values):
  return const("sizes", np.array(values, np.int32))


@pytest.mark.parametrize("how", [_run, _traced])
@pytest.mark.parametrize(
  "nodes",
  [
    [_sizes(2**15, 2**15), node("y", "Fill", "sizes", "x", T=_F, index_type=_I)],
    [_sizes(2**15, 2**15), node("y", "BroadcastTo", "x", "sizes", T=_F, Tidx=_I)],
    [const("one", np.ones(1, np.float32)), _sizes(2**30), node("y", "Tile", "one", "sizes", T=_F, Tmultiples=_I)],
    [const("n", np.int32(2**30)), node("y", "LinSpace", "x", "x", "n", T=_F, Tidx=_I)],
  ],
  ids=lambda nodes: nodes[-1].op,
)
def test_sizes_that_are_numbers_in_the_file_are_checked_before_they_are_used(nodes, how):
  op = nodes[-1].op
  with pytest.raises(LimitExceededError, match=rf"{op} node 'y' \(function 'main'\) needs \d+ bytes.*array_bytes"):
    how(_of_one_node(nodes, "y"))


def test_sizes_that_multiply_those_of_arguments_are_checked_before_anything_is_allocated():
  nodes = [_sizes(2**20), node("y", "Tile", "x", "sizes", T=_F, Tmultiples=_I)]
  fn, params = convert_program(
    _of_one_node(nodes, "y"), ConvertOptions(limits=Limits(array_bytes=1 << 22, array_ratio=10))
  )
  assert fn(params, np.ones(1, np.float32))[0][0].shape == (2**20,)
  with pytest.raises(
    LimitExceededError, match=r"Tile node 'y' .* needs 16777216 bytes for an array of shape \[4194304\]"
  ):
    fn(params, np.ones(4, np.float32))


def test_bounds_of_sizes_that_depend_on_data_are_checked_as_sizes_are():
  tile = node("y", "Tile", "found", "sizes", T=DType.INT64, Tmultiples=_I)
  nodes = [const("sizes", np.array([2**20, 1], np.int32)), node("found", "Where", "x", T=_F), tile]
  root = function("main", ["x"], nodes, ["y"])
  root = dataclasses.replace(root, results=(Result("r", TensorRef("y"), DType.INT64),))
  fn, params = convert_program(program(root), ConvertOptions(limits=Limits(array_bytes=1 << 23, array_ratio=0)))
  jax.make_jaxpr(lambda x: fn(params, x)[0])(np.ones(1, np.float32))
  with pytest.raises(LimitExceededError, match=r"Tile node 'y' .* for an array of shape \[4194304, 1\]"):
    jax.make_jaxpr(lambda x: fn(params, x)[0])(np.ones(4, np.float32))


def test_larger_arguments_may_give_larger_results():
  nodes = [_sizes(2**20), node("y", "Tile", "x", "sizes", T=_F, Tmultiples=_I)]
  limits = Limits(array_bytes=0, known_bytes=0, array_ratio=2**20)
  fn, params = convert_program(_of_one_node(nodes, "y"), ConvertOptions(limits=limits))
  assert fn(params, np.ones(4, np.float32))[0][0].shape == (2**22,)


def test_a_constant_that_repeats_its_element_too_often_is_an_error():
  whole = const("c", np.float32(1))
  tensor = whole.attrs["value"].to_proto()
  del tensor.tensor_shape.dim[:]
  for _ in range(2):
    tensor.tensor_shape.dim.add(size=2**14)
  repeated = dataclasses.replace(whole, attrs={**whole.attrs, "value": Tensor.from_proto(tensor)})
  with pytest.raises(LimitExceededError, match=r"Const node 'c' needs 1073741824 bytes"):
    convert_program(_of_one_node([repeated, node("y", "AddV2", "x", "c", T=_F)], "y"))


def _sized(op, values, dtype=_F, **attrs):
  inputs = [const(f"in{i}", value) for i, value in enumerate(values)]
  large = node("large", op, *(n.name for n in inputs), **attrs)
  ends = [node("rank", "Rank", "large", T=dtype), node("y", "Cast", "rank", SrcT=_I, DstT=_F)]
  return program(function("main", ["x"], [*inputs, large, *ends], ["y"]))


_COLUMN, _ROW = (np.arange(2 << 14, dtype=np.float32).reshape(shape) for shape in ((-1, 1), (1, -1)))
_HUGE = np.int64(1 << 40)
_L = DType.INT64
_LARGE = {
  "range": ("Range", [np.int64(0), _HUGE, np.int64(1)], _L, {"Tidx": _L}),
  "pad": ("Pad", [np.ones(2, np.float32), [[np.int64(0), _HUGE]]], _F, {"T": _F, "Tpaddings": _L}),
  "space_to_batch": (
    "SpaceToBatchND",
    [np.ones((1, 2, 2), np.float32), [np.int64(1)], [[np.int64(0), _HUGE]]],
    _F,
    {"T": _F, "Tblock_shape": _L, "Tpaddings": _L},
  ),
  "broadcast": ("AddV2", [_COLUMN, _ROW], _F, {"T": _F}),
  "diagonal": ("MatrixDiag", [_ROW], _F, {"T": _F}),
  "einsum": ("Einsum", [np.ones(8, np.float32)], _F, {"T": _F, "N": 1, "equation": b"i->" + b"i" * 40}),
  "dynamic_stitch": ("DynamicStitch", [[np.int32((1 << 31) - 1)], np.ones(1, np.float32)], _F, {"T": _F, "N": 1}),
  "ragged_range": (
    "RaggedRange",
    [[np.int64(0)], [_HUGE], [np.int64(1)]],
    _L,
    {"T": _L, "Tsplits": _L},
  ),
  "ragged_to_tensor": (
    "RaggedTensorToTensor",
    [[np.int64(2), _HUGE], np.ones(2, np.float32), np.float32(0), np.array([0, 1, 2], np.int64)],
    _F,
    {"T": _F, "Tindex": _L, "Tshape": _L, "num_row_partition_tensors": 1, "row_partition_types": (b"ROW_SPLITS",)},
  ),
  "the states of CTCLoss": (
    "CTCLoss",
    [np.ones((2, 1, 3), np.float32), [[np.int64(0), _HUGE]], np.ones(1, np.int32), [np.int32(2)]],
    _F,
    {"T": _F},
  ),
  "sparse_fill_empty_rows": (
    "SparseFillEmptyRows",
    [np.zeros((1, 2), np.int64), np.ones(1, np.float32), [_HUGE, np.int64(2)], np.float32(0)],
    _L,
    {"T": _F},
  ),
}


@pytest.mark.parametrize("name", _LARGE)
def test_results_that_are_much_larger_than_operands_are_refused_before_they_are_made(name):
  op, values, dtype, attrs = _LARGE[name]
  with pytest.raises(LimitExceededError, match=f"{op}.* needs .*array_bytes") as caught:
    _run(_sized(op, [np.array(value) for value in values], dtype, **attrs))
  assert caught.value.limit == "array_bytes"


def test_shapes_that_do_not_fit_are_an_invalid_input_and_the_error_that_jax_raised():
  with pytest.raises(InvalidInputError, match="AddV2 node 'large'.*do not fit the op.*broadcast") as caught:
    _run(_sized("AddV2", [np.ones(3, np.float32), np.ones(2, np.float32)], T=_F))
  assert isinstance(caught.value, type(caught.value.__cause__))
