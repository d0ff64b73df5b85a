"""What is known of loops before they run, on programs written by hand. No TensorFlow."""

import jax
import numpy as np
import pytest

import graftax.convert as gc
from graftax.convert.evaluation import loop_walk
from graftax.graphdef_ir import DType, Function, FunctionRef, Parameter, Result, TensorRef
from graftax.graphdef_ir.errors import UnsupportedError
from graftax.testing.graph_builders import const, node, program

_INT, _FLOAT, _BOOL = DType.INT32, DType.FLOAT, DType.BOOL


def _function(name, parameters, nodes, results):
  return Function(
    name,
    tuple(Parameter(parameter, dtype) for parameter, dtype in parameters),
    tuple(Result(f"r{i}", TensorRef.parse(ref), dtype) for i, (ref, dtype) in enumerate(results)),
    tuple(nodes),
  )


_VARIABLES = [("i", _INT), ("x", _FLOAT)]
_STEP = [
  const("one", np.int32(1)),
  node("next", "AddV2", "i", "one", T=_INT),
  node("y", "Sin", "x", T=_FLOAT),
]
_BODY = _function("body", _VARIABLES, _STEP, [("next", _INT), ("y", _FLOAT)])


def _less(limit, *more, result="less"):
  nodes = [const("limit", np.int32(limit)), node("less", "Less", "i", "limit", T=_INT), *more]
  return _function("cond", _VARIABLES, nodes, [(result, _BOOL)])


def _loop(cond, body=_BODY, library=()):
  nodes = [
    const("start", np.int32(0)),
    node("loop", "While", "start", "x", T=(_INT, _FLOAT), cond=FunctionRef("cond"), body=FunctionRef("body")),
  ]
  root = _function("root", [("x", _FLOAT)], nodes, [("loop:1", _FLOAT)])
  fn, params = gc.convert_program(program(root, [cond, body, *library]))
  return lambda x: fn(params, x)[0][0]


def _primitives(function):
  return [equation.primitive.name for equation in jax.make_jaxpr(function)(np.float32(0.5)).eqns]


def _sines(count):
  x = np.float32(0.5)
  for _ in range(count):
    x = np.sin(x)
  return x


@pytest.fixture
def forms(caplog):
  """Returns a function that returns what the log says of the loops traced so far."""
  caplog.set_level("INFO", logger="graftax.loops")
  return lambda: {record.getMessage().partition(" becomes ")[2] for record in caplog.records}


_POSITIVE = [const("floor", np.float32(0.45)), node("positive", "Greater", "x", "floor", T=_FLOAT)]


def test_a_known_counter_makes_a_scan(forms):
  loop = _loop(_less(5))
  assert "scan" in _primitives(loop) and "while" not in _primitives(loop)
  assert forms() == {"a scan of 5 iterations, which are known while tracing"}
  np.testing.assert_allclose(loop(np.float32(0.5)), _sines(5), rtol=1e-6)


def test_a_condition_on_data_makes_a_while_loop(forms):
  loop = _loop(_less(5, *_POSITIVE, result="positive"))
  assert "scan" not in _primitives(loop)
  assert forms() == {"a while_loop: its condition depends on traced data or on a variable"}


def test_many_iterations_make_a_while_loop(forms, monkeypatch):
  monkeypatch.setattr("graftax.convert.evaluation.loop_walk._MAX_ITERATIONS", 1_000)
  loop = _loop(_less(2_000))
  assert "scan" not in _primitives(loop)
  assert forms() == {"a while_loop: it has more than 1,000 iterations"}


def test_a_declared_bound_makes_a_scan_of_that_length(forms):
  loop = _loop(_less(7, *_POSITIVE, node("both", "LogicalAnd", "less", "positive"), result="both"))
  (scan,) = [e for e in jax.make_jaxpr(loop)(np.float32(0.5)).eqns if e.primitive.name == "scan"]
  assert scan.params["length"] == 7
  assert forms() == {"a scan of at most 7 iterations, as its condition declares"}
  np.testing.assert_allclose(loop(np.float32(0.5)), _sines(3), rtol=1e-6)


@pytest.mark.parametrize("call", ["PartitionedCall", "If"])
def test_a_counter_is_followed_into_calls_and_branches(call):
  inner = _function("inner", [("i", _INT)], [_STEP[0], _STEP[1]], [("next", _INT)])
  if call == "If":
    functions = {"then_branch": FunctionRef("inner"), "else_branch": FunctionRef("inner")}
    called = [const("true", np.bool_(True)), node("next", "If", "true", "i", Tcond=_BOOL, Tin=(_INT,), Tout=(_INT,),
                                                  **functions)]  # fmt: skip
  else:
    called = [node("next", call, "i", Tin=(_INT,), Tout=(_INT,), f=FunctionRef("inner"))]
  body = _function("body", _VARIABLES, [*called, _STEP[2]], [("next", _INT), ("y", _FLOAT)])
  assert "scan" in _primitives(_loop(_less(5), body, [inner]))


def test_a_body_that_runs_its_own_loop_again_raises():
  again = node("loop", "While", "i", "x", T=(_INT, _FLOAT), cond=FunctionRef("cond"), body=FunctionRef("body"))
  body = _function("body", _VARIABLES, [again], [("loop", _INT), ("loop:1", _FLOAT)])
  with pytest.raises(UnsupportedError, match="'body' calls itself"):
    _loop(_less(5), body)(np.float32(0.5))


def test_values_are_compared_only_for_ops_that_they_can_decide(monkeypatch):
  compared = []
  monkeypatch.setattr(loop_walk, "_truth_of", lambda value: compared.append(value))
  assert _loop(_less(5))(np.float32(0.5)) == pytest.approx(_sines(5))
  assert not compared
