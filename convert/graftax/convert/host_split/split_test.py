"""Programs written by hand, split into host, numbers, host. No TensorFlow."""

import dataclasses
import pickle

import jax
import numpy as np
import pytest

from graftax.convert import (
  ConversionError,
  ParameterError,
  StringTable,
  UnavailableCapture,
  convert_program,
  jax_program,
  split_program,
)
from graftax.convert.host_split.carriers import KnownArray, PackedStrings
from graftax.graphdef_ir import DType, FunctionLibrary, FunctionRef, Result, TensorRef
from graftax.graphdef_ir.errors import ArityError
from graftax.ops_jax import UnsupportedOpError
from graftax.testing.graph_builders import const, function, node, program

_LOOKUP = {"Tin": DType.STRING, "Tout": DType.INT64}
_GATHER = {"Tparams": DType.FLOAT, "Tindices": DType.INT64, "Taxis": DType.INT32}


def _strings(*items):
  return np.array([item.encode() for item in items], object)


_WORDS = StringTable("table 'words' has string keys", "words", _strings("a", "b", "c"), np.arange(3))


def _program(nodes, results, dtypes=(DType.FLOAT,), table=_WORDS):
  """Returns a program of a text and two resources: a table, and the variable `w`."""
  root = function("f", ["text", "*table", "*w"], nodes, results)
  typed = tuple(Result(r.name, r.ref, t) for r, t in zip(root.results, dtypes, strict=True))
  parameters = (dataclasses.replace(root.parameters[0], dtype=DType.STRING), *root.parameters[1:])
  whole = program(dataclasses.replace(root, parameters=parameters, results=typed), variables={"w": 2.0})
  spec = dataclasses.replace(whole.inputs.args[0], dtype=DType.STRING)
  inputs = dataclasses.replace(whole.inputs, args=(spec,))
  whole = dataclasses.replace(whole, inputs=inputs)
  return dataclasses.replace(whole, captures=(table, *whole.captures))


def _look_up(*more):
  return [
    const("unknown", np.int64(-1)),
    node("lower", "StringLower", "text"),
    node("found", "LookupTableFindV2", "table", "lower", "unknown", **_LOOKUP),
    node("weight", "ReadVariableOp", "w", dtype=DType.FLOAT),
    node("number", "Cast", "found", SrcT=DType.INT64, DstT=DType.FLOAT),
    node("y", "Mul", "number", "weight", T=DType.FLOAT),
    *more,
  ]


def test_text_is_looked_up_before_the_numbers():
  head, body, params, tail = split_program(_program(_look_up(), ["y"]))
  (tensor,) = head(["B", "x", "c"])
  np.testing.assert_array_equal(tensor, [1, -1, 2])
  np.testing.assert_array_equal(tail(jax.jit(body)(params, tensor))[0], [2, -2, 4])
  assert jax.grad(lambda p: body(p, tensor)[0][0].sum())(params)["w"] == 2


def test_added_strings_are_for_the_host_and_added_numbers_are_not():
  nodes = [
    node("text2", "Add", "text", "text", T=DType.STRING),
    node("length", "StringLength", "text2"),
    node("twice", "Add", "length", "length", T=DType.INT32),
  ]
  head, body, params, tail = split_program(_program(nodes, ["twice"], (DType.INT32,)))
  (tensor,) = head(["ab", ""])
  np.testing.assert_array_equal(tensor, [4, 0])
  np.testing.assert_array_equal(tail(jax.jit(body)(params, tensor))[0], [8, 0])


def test_text_of_results_is_made_after_the_numbers_and_text_passes_through_jit():
  more = [
    node("text_of_y", "AsString", "y", T=DType.FLOAT, precision=1),
    node("joined", "StringJoin", "lower", "text_of_y", N=2, separator=b"="),
  ]
  whole = _program(_look_up(*more), ["joined", "y", "lower"], (DType.STRING, DType.FLOAT, DType.STRING))
  head, body, params, tail = split_program(whole)
  joined, y, lower = tail(jax.jit(body)(params, *head(["B", ""])))
  assert joined.tolist() == [b"b=2.0", b"=-2.0"]
  assert lower.tolist() == [b"b", b""]
  np.testing.assert_array_equal(y, [2, -2])


def test_a_loop_that_only_reads_its_input_7_is_not_for_the_host():
  # The position is an attribute, and 7 is also the number of DType.STRING.
  names = [f"v{i}" for i in range(7)]
  less = function(
    "less", [*names, "*w"], [const("three", np.float32(3)), node("go", "Less", "v0", "three", T=DType.FLOAT)], ["go"]
  )
  less = dataclasses.replace(less, results=(dataclasses.replace(less.results[0], dtype=DType.BOOL),))
  nodes = [
    const("one", np.float32(1)),
    node("next", "AddV2", "v0", "one", T=DType.FLOAT),
    node("read", "ReadVariableOp", "w", dtype=DType.FLOAT),
    node("sum", "AddV2", "v1", "read", T=DType.FLOAT),
  ]
  body = function("more", [*names, "*w"], nodes, ["next", "sum", *names[2:], "w"])
  body = dataclasses.replace(
    body, results=(*body.results[:7], dataclasses.replace(body.results[7], dtype=DType.RESOURCE))
  )
  types = {"T": (DType.FLOAT,) * 7 + (DType.RESOURCE,), "_read_only_resource_inputs": (7,)}
  loop = node(
    "loop", "While", "zero", "y", *["zero"] * 5, "w", cond=FunctionRef("less"), body=FunctionRef("more"), **types
  )
  whole = _program(_look_up(const("zero", np.float32(0)), loop), ["loop:1"])
  whole = dataclasses.replace(whole, library=FunctionLibrary({f.name: f for f in (less, body)}))
  head, fn, params, tail = split_program(whole)
  np.testing.assert_array_equal(tail(jax.jit(fn)(params, *head(["B", "c"])))[0], [8, 10])
  assert jax.grad(lambda p: fn(p, *head(["B", "c"]))[0][0].sum())(params)["w"] == 9


def test_sizes_that_depend_on_text_are_known_under_jit():
  more = [
    const("axis", np.int32(0)),
    const("axes", np.int32([0])),
    node("length", "StringLength", "text"),
    node("longest", "Max", "length", "axis", T=DType.INT32, Tidx=DType.INT32),
    node("dims", "ExpandDims", "longest", "axis", T=DType.INT32, Tdim=DType.INT32),
    node("filled", "Fill", "dims", "weight", T=DType.FLOAT, index_type=DType.INT32),
  ]
  head, body, params, tail = split_program(_program(_look_up(*more), ["filled"]))
  tensors = head(["abc", "b"])
  assert [type(tensor) for tensor in tensors] == [KnownArray]
  jitted = jax.jit(body)
  assert [tail(jitted(params, *head(text)))[0].shape for text in (["abc", "b"], ["a"])] == [(3,), (1,)]


def test_all_that_is_missing_is_in_one_sorted_error():
  more = [node("z", "StringOfTheFuture", "lower"), node("x", "DecodeProtoOfThePast", "z")]
  both = dataclasses.replace(
    _program(_look_up(*more), ["y"]),
    captures=(UnavailableCapture("table 't' is lost"), *_program(_look_up(), ["y"]).captures[1:]),
  )
  both = dataclasses.replace(
    both,
    function=dataclasses.replace(
      both.function, results=(*both.function.results, Result("r", TensorRef("x"), DType.FLOAT))
    ),
  )
  with pytest.raises(UnsupportedOpError, match=r"(?s)DecodeProtoOfThePast x1.*StringOfTheFuture x1.*table 't' is lost"):
    split_program(both)


def test_a_host_op_between_two_numeric_parts_is_refused():
  more = [
    node("text_of_y", "AsString", "y", T=DType.FLOAT),
    node("again", "StringToNumber", "text_of_y", out_type=DType.FLOAT),
    node("second", "ReadVariableOp", "w", dtype=DType.FLOAT),
    node("z", "AssignAddVariableOp", "w", "again", dtype=DType.FLOAT),
  ]
  whole = _program(_look_up(*more), ["again"])
  controls = dataclasses.replace(whole.function, control_results=("z",))
  with pytest.raises(ConversionError, match=r"'z'.*AsString, StringToNumber"):
    split_program(dataclasses.replace(whole, function=controls))


def test_the_parts_can_be_pickled():
  head, body, params, tail = pickle.loads(pickle.dumps(split_program(_program(_look_up(), ["y"]))))
  np.testing.assert_array_equal(tail(body(params, *head(["c"])))[0], [4])


def test_parts_and_errors_are_short_for_many_variables():
  many = {f"w{i}": np.zeros(100, np.float32) for i in range(300)}
  names = "".join(f" *{name}" for name in many).split()
  reads = [node(f"read_{name}", "ReadVariableOp", name, dtype=DType.FLOAT) for name in many]
  total = node("total", "AddN", *(f"read_{name}" for name in many), N=len(many), T=DType.FLOAT)
  whole = program(function("f", ["x", *names], [*reads, total], ["total"]), variables=many)
  parts = split_program(whole)
  for part in (parts, *parts[:2], parts.tail, parts.head.function, whole):
    assert len(repr(part)) < 1000, type(part)
  fn, params = convert_program(whole)
  unknown, shapes = {f"odd{i}": 0 for i in range(300)}, {f"w{i}": np.zeros(i + 1) for i in range(300)}
  wrong = [{}, {**params, **unknown}, shapes]
  for values in wrong:
    with pytest.raises(ParameterError) as caught:
      fn(values, np.float32(0))
    assert len(str(caught.value)) < 3000


def test_missing_parameters_of_the_body_are_an_error_that_names_them():
  head, body, _, _ = split_program(_program(_look_up(), ["y"]))
  with pytest.raises(ParameterError, match=r"f: Some parameters are missing, \['w'\]"):
    body({}, *head(["a"]))


def test_strings_survive_packing():
  strings = np.array([[b"", b"\xff\0"], ["é😀".encode(), b"a"]], object)
  packed = jax.jit(lambda x: x)(PackedStrings.pack(strings))
  assert packed.unpack().tolist() == strings.tolist()
  empty = np.zeros((0, 2), object)
  assert PackedStrings.pack(empty).unpack().shape == (0, 2)


def test_a_function_with_a_custom_gradient_that_captures_tensors_is_split():
  # The derivative of sin captures x: its IdentityN node gets inputs that it does not declare.
  split = split_program(jax_program(lambda params, x: jax.numpy.sin(x) * params["w"], [2.0], params={"w": 3.0}))
  results = split.body(split.params, *split.head(0.0))
  assert float(split.tail(results)) == 0.0

  def total(params):
    return split.body(params, *split.head(0.5))[0][0]

  assert float(jax.grad(total)(split.params)["w"]) == pytest.approx(np.sin(0.5))


def test_a_node_with_too_many_inputs_is_refused_before_the_parts_are_found():
  whole = program(function("f", ["x"], [node("y", "Neg", "x", "x", T=DType.FLOAT)], ["y"]))
  with pytest.raises(ArityError, match=r"node 'y' \(Neg\): has 2 inputs; expected 1"):
    split_program(whole)
