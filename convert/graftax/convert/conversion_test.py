"""Converted functions as objects: pickling, copying, argument names. No TensorFlow."""

import collections
import copy
import inspect
import pickle
import subprocess
import sys
from dataclasses import replace

import jax
import numpy as np
import pytest

from graftax.convert import InputStructure, OutputStructure, convert_program, named_tuple_class
from graftax.convert.conversion import _MOST_BOUNDS, _with_other_bounds
from graftax.graphdef_ir import DType, FunctionRef, PartialShape, TensorSpec
from graftax.ops_jax import MissingBoundError
from graftax.testing.graph_builders import const, function, node, program

F = {"T": DType.FLOAT}
SCALAR = TensorSpec(PartialShape(()), DType.FLOAT)


def _program():
  inner = function(
    "inner", ["x", "*v"], [node("r", "ReadVariableOp", "v", dtype=DType.FLOAT), node("y", "Mul", "x", "r", **F)], ["y"]
  )
  unused = function("unused", ["x"], [node("u", "NoSuchOp", "x")], ["u"])
  call = node(
    "c", "PartitionedCall", "x", "v", f=FunctionRef("inner"), Tin=(DType.FLOAT, DType.RESOURCE), Tout=(DType.FLOAT,)
  )
  nodes = [call, const("two", np.float32(2)), node("z", "Add", "c", "two", **F)]
  Result = collections.namedtuple("Result", "value rest")  # of a class that only this function knows
  root = program(function("f", ["x", "*v"], nodes, ["z"]), [inner, unused], {"v": 3.0})
  return replace(root, outputs=OutputStructure(Result(SCALAR, {"none": None})))


def test_a_pickled_function_gives_the_same_results():
  fn, params = convert_program(_program())
  again, same_params = pickle.loads(pickle.dumps((fn, params)))
  outputs, new_params = jax.jit(again)(same_params, 5.0)
  assert (float(outputs.value), outputs.rest, float(new_params["v"])) == (17.0, {"none": None}, 3.0)
  assert str(again) == str(fn) and again.__name__ == "f"
  assert type(pickle.loads(pickle.dumps(outputs))) is type(outputs)


def test_a_pickled_function_holds_neither_parameters_nor_functions_that_it_does_not_call():
  big = replace(_program(), variables={"v": np.zeros(100_000, np.float32)})
  data = pickle.dumps(convert_program(big)[0])
  assert len(data) < 10_000
  assert b"NoSuchOp" not in data


def test_a_pickled_function_runs_in_another_process_without_tensorflow(tmp_path):
  (tmp_path / "fn.pickle").write_bytes(pickle.dumps(convert_program(_program())))
  code = f"""
import pickle, sys
fn, params = pickle.load(open({str(tmp_path / "fn.pickle")!r}, "rb"))
assert float(fn(params, 5.0)[0].value) == 17.0
assert not any(name.partition(".")[0] in ("tensorflow", "keras") for name in sys.modules)
"""
  subprocess.run([sys.executable, "-c", code], check=True)


def test_a_deep_copy_is_the_function_itself():
  fn, params = convert_program(_program())
  assert copy.deepcopy(fn) is fn
  assert copy.deepcopy({"model": fn})["model"](params, 1.0)[0].value == 5


@pytest.mark.parametrize("name", ["rng", "self", "params", "args"])
def test_arguments_may_have_any_name(name):
  root = program(function("f", [name], [node("y", "Neg", name, **F)], ["y"]))
  structure = InputStructure(
    (), {name: SCALAR}, inspect.Signature([inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY)])
  )
  fn, params = convert_program(replace(root, inputs=structure))
  assert fn(params, **{name: 2.0})[0] == (-2,)


def test_named_tuple_classes_are_one_per_name_and_fields():
  assert named_tuple_class("P", ("a",)) is named_tuple_class("P", ("a",))
  value = named_tuple_class("P", ("a", "b"))(1, 2)
  again = pickle.loads(pickle.dumps(value))
  assert again == value and type(again) is type(value) and again._replace(a=3).a == 3


def test_error_that_names_all_sizes_without_a_bound_keeps_the_notes_of_the_first():
  first = MissingBoundError("a", "a")
  first.add_note("while running a")
  full = _with_other_bounds(first, ["b"])
  assert full.__notes__ == ["while running a"] and "max_sizes={'a': n, 'b': n}" in str(full)


def test_error_that_names_many_sizes_without_a_bound_says_that_there_may_be_more():
  first = MissingBoundError("a", "a")
  assert "There may be more" not in str(_with_other_bounds(first, ["b"]))
  assert str(_with_other_bounds(first, [f"b{i}" for i in range(_MOST_BOUNDS)])).endswith("n}. There may be more.")
