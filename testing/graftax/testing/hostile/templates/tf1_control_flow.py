"""Graphs of TF1: Switch, Merge, Enter, Exit, NextIteration and LoopCond that do not fit together."""

from collections.abc import Callable

import numpy as np

from graftax.graphdef_ir import DType, schema
from graftax.testing.hostile.draw import Draw
from graftax.testing.hostile.grammar.protos import Shape, add, attr, const, graph
from graftax.testing.hostile.grammar.readers import use_model
from graftax.testing.hostile.registry import Attempt, Box, Expectation, attempted

_F, _I = DType.FLOAT, DType.INT32
Change = Callable[[Draw, schema.GraphDef], None]


def _honest_loop() -> schema.GraphDef:
  """Returns `i, y = 0, x; while i < 3: i, y = i + 1, y + y`."""
  made = graph()
  add(made.node, "x", "Placeholder", dtype=_F, shape=Shape((2,)))
  const(made.node, "zero", np.int32(0))
  frame = {"frame_name": b"loop", "parallel_iterations": 10, "is_constant": False}
  for name, source, dtype in (("i", "zero", _I), ("y", "x", _F)):
    add(made.node, f"{name}_enter", "Enter", source, T=dtype, **frame)
    add(made.node, f"{name}_merge", "Merge", f"{name}_enter", f"{name}_next", T=dtype, N=2)
    add(made.node, f"{name}_switch", "Switch", f"{name}_merge", "cond", T=dtype)
    add(made.node, f"{name}_exit", "Exit", f"{name}_switch", T=dtype)
    add(made.node, f"{name}_body", "Identity", f"{name}_switch:1", T=dtype)
    add(made.node, f"{name}_next", "NextIteration", f"{name}_add", T=dtype)
  const(made.node, "limit", np.int32(3)).input.append("^i_merge")
  add(made.node, "less", "Less", "i_merge", "limit", T=_I)
  add(made.node, "cond", "LoopCond", "less")
  const(made.node, "one", np.int32(1)).input.append("^i_body")
  add(made.node, "i_add", "AddV2", "i_body", "one", T=_I)
  add(made.node, "y_add", "AddV2", "y_body", "y_body", T=_F)
  add(made.node, "out", "Identity", "y_exit", T=_F)
  return made


def _honest_conditional() -> schema.GraphDef:
  """Returns `x + 1 if sum(x) < 9 else -x`."""
  made = graph()
  add(made.node, "x", "Placeholder", dtype=_F, shape=Shape((2,)))
  const(made.node, "axes", np.zeros(1, np.int32))
  const(made.node, "nine", np.float32(9))
  add(made.node, "sum", "Sum", "x", "axes", T=_F, Tidx=_I, keep_dims=False)
  add(made.node, "less", "Less", "sum", "nine", T=_F)
  add(made.node, "switch", "Switch", "x", "less", T=_F)
  const(made.node, "one", np.float32(1)).input.append("^pivot")
  add(made.node, "pivot", "Identity", "switch:1", T=_F)
  add(made.node, "then", "AddV2", "switch:1", "one", T=_F)
  add(made.node, "else", "Neg", "switch", T=_F)
  add(made.node, "merge", "Merge", "else", "then", T=_F, N=2)
  add(made.node, "out", "Identity", "merge", T=_F)
  return made


def attempt_of(
  change: Change,
  draw: Draw,
  box: Box,
  expectation: Expectation = "typed",
  honest: Callable[[], schema.GraphDef] = _honest_loop,
) -> Attempt:
  """Changes an honest loop or conditional."""
  made = honest()
  change(draw, made)
  path = box.model / "graph.pb"
  path.write_bytes(made.SerializeToString())
  jit = draw.chance(0.3)
  return Attempt(lambda: use_model(path, jit=jit), expectation, graph=path)


_conditional = attempted(honest=_honest_conditional)


def _node(made: schema.GraphDef, name: str) -> schema.NodeDef:
  return next(node for node in made.node if node.name == name)


def _of(made: schema.GraphDef, *ops: str) -> list[schema.NodeDef]:
  return [node for node in made.node if node.op in ops]


@attempted("loaded")
def loop_honest(draw: Draw, made: schema.GraphDef) -> None:
  del draw, made


@attempted("loaded", honest=_honest_conditional)
def conditional_honest(draw: Draw, made: schema.GraphDef) -> None:
  del draw, made


def loop_frames(draw: Draw, made: schema.GraphDef) -> None:
  for node in _of(made, "Enter"):
    node.attr["frame_name"].CopyFrom(attr(draw.lie(b"loop", b"", b"other", b"loop/loop", 5)))
    node.attr["is_constant"].CopyFrom(attr(draw.chance(0.3)))


def loop_inputs(draw: Draw, made: schema.GraphDef) -> None:
  names = [node.name for node in made.node]
  node = draw.pick(*_of(made, "Switch", "Merge", "Exit", "NextIteration", "LoopCond", "Enter"))
  node.input[draw.integer(0, len(node.input) - 1)] = draw.pick(*names, *(f"{name}:1" for name in names))


def loop_inputs_twice(draw: Draw, made: schema.GraphDef) -> None:
  names = [node.name for node in made.node]
  for node in _of(made, "Switch", "Merge", "AddV2", "Less"):
    if draw.chance(0.4):
      node.input[draw.integer(0, len(node.input) - 1)] = draw.pick(*names)


def loop_node_missing(draw: Draw, made: schema.GraphDef) -> None:
  node = draw.pick(*_of(made, "Switch", "Merge", "Exit", "NextIteration", "LoopCond", "Enter"))
  del made.node[list(made.node).index(node)]


def loop_ops_changed(draw: Draw, made: schema.GraphDef) -> None:
  ops = ["Identity", "Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond", "RefSwitch", "RefMerge"]
  node = draw.pick(*_of(made, "Switch", "Merge", "Exit", "NextIteration", "LoopCond", "Enter", "Identity"))
  node.op = draw.pick(*ops)


def loop_conditions(draw: Draw, made: schema.GraphDef) -> None:
  for node in _of(made, "LoopCond"):
    copy = made.node.add()
    copy.CopyFrom(node)
    copy.name = "cond_2"
    copy.input[0] = draw.pick("less", "x", "i_merge", "cond", "cond_2")
  for node in _of(made, "Switch"):
    node.input[1] = draw.pick("cond", "cond_2", "less", "x")


def loop_without_end(draw: Draw, made: schema.GraphDef) -> None:
  limit = draw.pick(np.int32(3), np.int32(1 << 20), np.int32((1 << 31) - 1))
  _node(made, "limit").attr["value"].CopyFrom(attr(limit))
  _node(made, "one").attr["value"].CopyFrom(attr(draw.pick(np.int32(1), np.int32(0), np.int32(-1))))
  # The body never runs: what a caller runs without end is not the reader's.
  _node(made, "zero").attr["value"].CopyFrom(attr(np.int32((1 << 31) - 1)))


def loop_that_doubles_a_list(draw: Draw, made: schema.GraphDef) -> None:
  const(made.node, "axis", np.int32(0)).input.append("^i_body")
  node = _node(made, "y_add")
  node.op = "ConcatV2"
  node.input[:] = ["y_body", "y_body", "axis"]
  node.attr["N"].CopyFrom(attr(2))
  node.attr["Tidx"].CopyFrom(attr(_I))
  for enter in _of(made, "Enter"):
    if enter.name == "y_enter" and draw.chance(0.7):
      enter.input[0] = "known"
  const(made.node, "known", np.ones(2, np.float32))
  add(made.node, "end", "AddV2", "out", "x", T=_F)
  _node(made, "limit").attr["value"].CopyFrom(attr(np.int32(draw.pick(2, 25, 31, 60))))


def loop_of_other_dtypes(draw: Draw, made: schema.GraphDef) -> None:
  for node in made.node:
    if "T" in node.attr and draw.chance(0.2):
      node.attr["T"].type = draw.pick(1, 3, 9, 7, 20)


def loop_inside_itself(draw: Draw, made: schema.GraphDef) -> None:
  # An Enter of another frame whose values come from the body, and whose Exit is missing or at the wrong place.
  frame = {"frame_name": b"inner", "is_constant": draw.chance(0.5), "parallel_iterations": 10}
  add(made.node, "inner", "Enter", "y_body", T=_F, **frame)
  add(made.node, "inner_exit", "Exit", draw.pick("inner", "y_switch", "y_body"), T=_F)
  _node(made, "y_add").input[0] = draw.pick("inner_exit", "inner")


def loops_deep(draw: Draw, made: schema.GraphDef) -> None:
  last = "y_body"
  for i in range(draw.pick(2, 40, 400)):
    add(
      made.node, f"e{i}", "Enter", last, T=_F, frame_name=f"frame_{i}".encode(), is_constant=True, parallel_iterations=1
    )
    last = f"e{i}"
  for i in range(draw.pick(2, 40, 400)):
    add(made.node, f"q{i}", "Exit", last, T=_F)
    last = f"q{i}"
  _node(made, "y_add").input[0] = last


def loop_merges_of_many(draw: Draw, made: schema.GraphDef) -> None:
  node = _node(made, "y_merge")
  node.input.extend(draw.pick(["y_enter"], ["y_next"], ["x"], ["y_next"] * 100, []))
  node.attr["N"].CopyFrom(attr(draw.pick(len(node.input), 1, 0, -1, 1 << 40)))


def loop_control_inputs(draw: Draw, made: schema.GraphDef) -> None:
  names = [node.name for node in made.node]
  for _ in range(draw.integer(1, 5)):
    draw.pick(*made.node).input.append(f"^{draw.pick(*names)}")


def loop_read_from_outside(draw: Draw, made: schema.GraphDef) -> None:
  inner = ["y_body", "y_add", "y_merge", "y_switch:1", "cond", "i_add", "less", "y_next"]
  add(made.node, "leak", "Identity", draw.pick(*inner), T=_F)


def loop_merge_index(draw: Draw, made: schema.GraphDef) -> None:
  add(made.node, "index", draw.pick("Identity", "Neg"), draw.pick("y_merge:1", "i_merge:1", "y_merge:2"), T=_I)


@_conditional
def conditional_inputs(draw: Draw, made: schema.GraphDef) -> None:
  names = [node.name for node in made.node]
  node = draw.pick(*_of(made, "Switch", "Merge", "AddV2", "Neg"))
  node.input[draw.integer(0, len(node.input) - 1)] = draw.pick(*names, *(f"{name}:1" for name in names))


@_conditional
def conditional_branches_mixed(draw: Draw, made: schema.GraphDef) -> None:
  add(made.node, "both", draw.pick("AddV2", "Mul"), "then", draw.pick("else", "x", "switch"), T=_F)
  if draw.chance(0.5):
    _node(made, "merge").input[0] = "both"


@_conditional
def conditional_dead_results(draw: Draw, made: schema.GraphDef) -> None:
  add(made.node, "dead", "Identity", draw.pick("then", "else", "switch", "switch:1"), T=_F)


@_conditional
def conditional_merges(draw: Draw, made: schema.GraphDef) -> None:
  node = _node(made, "merge")
  node.input[:] = draw.pick(
    ["else", "else"], ["then"], ["else", "then", "then"], [], ["x", "then"], ["switch", "switch:1"]
  )
  node.attr["N"].CopyFrom(attr(draw.pick(2, len(node.input), 0, -5)))


@_conditional
def conditional_predicates(draw: Draw, made: schema.GraphDef) -> None:
  source = draw.pick("x", "nine", "axes", "merge", "switch", "less:1")
  _node(made, "switch").input[1] = source


@_conditional
def conditionals_in_a_row(draw: Draw, made: schema.GraphDef) -> None:
  last = "merge"
  for i in range(draw.pick(3, 60, 300)):  # each reads the last one twice
    add(made.node, f"s{i}", "Switch", last, "less", T=_F)
    add(made.node, f"t{i}", "AddV2", f"s{i}:1", f"s{i}:1", T=_F)
    add(made.node, f"m{i}", "Merge", f"s{i}", f"t{i}", T=_F, N=2)
    last = f"m{i}"
  add(made.node, "end", "Neg", last, T=_F)


@_conditional
def conditionals_deep(draw: Draw, made: schema.GraphDef) -> None:
  depth, last = draw.pick(3, 30, 200), "switch:1"
  for i in range(depth):
    add(made.node, f"s{i}", "Switch", last, draw.pick("less", "less", "sum") if i == 0 else "less", T=_F)
    last = f"s{i}:1"
  for i in reversed(range(depth)):
    add(made.node, f"m{i}", "Merge", f"s{i}", last, T=_F, N=2)
    last = f"m{i}"
  _node(made, "merge").input[1] = last


@_conditional
def conditional_by_many_predicates(draw: Draw, made: schema.GraphDef) -> None:
  # Nodes that run only if n predicates of their own hold, merged in the wrong order.
  last = "x"
  count = draw.pick(2, 12, 24)
  for i in range(count):
    const(made.node, f"c{i}", np.float32(i))
    add(made.node, f"p{i}", "Less", "sum", f"c{i}", T=_F)
    add(made.node, f"s{i}", "Switch", last, f"p{i}", T=_F)
    last = f"s{i}:{draw.pick(1, 0)}" if i < 3 else f"s{i}:1"
  order = list(range(count)) if draw.chance(0.5) else list(reversed(range(count)))
  for i in order:
    add(made.node, f"m{i}", "Merge", f"s{i}", last, T=_F, N=2)
    last = f"m{i}"
  add(made.node, "end", "Neg", last, T=_F)


@_conditional
def conditionals_that_multiply(draw: Draw, made: schema.GraphDef) -> None:
  # Two conditionals on each predicate, of which each needs what the next level computes: copies of copies.
  depth, last = draw.pick(2, 10, 16, 60), "x"
  for i in range(depth):
    const(made.node, f"c{i}", np.float32(i))
    add(made.node, f"p{i}", "Less", "sum", f"c{i}", T=_F)
    add(made.node, f"s{i}", "Switch", last, f"p{i}", T=_F)
    last = f"s{i}:1"
  for i in reversed(range(depth)):
    add(made.node, f"m{i}", "Merge", f"s{i}", last, T=_F, N=2)
    add(made.node, f"t{i}", "Switch", f"m{i}", f"p{i}", T=_F)
    add(made.node, f"a{i}", "AddV2", f"t{i}:1", last, T=_F)
    add(made.node, f"n{i}", "Merge", f"t{i}", f"a{i}", T=_F, N=2)
    last = f"n{i}"
  add(made.node, "end", "Neg", last, T=_F)


@_conditional
def switches_of_many_outputs(draw: Draw, made: schema.GraphDef) -> None:
  const(made.node, "index", np.int32(1))
  most = draw.pick(2, 1 << 16, 1 << 18, 1 << 20, (1 << 31) - 1)
  add(made.node, "many", "_SwitchN", "x", "index", T=_F, num_outs=most)
  for i in range(2):
    add(made.node, f"branch{i}", "Neg", f"many:{i}" if i else "many", T=_F)
  add(made.node, "one_of_them", "Merge", "branch0", "branch1", T=_F, N=2)
  add(made.node, "end", "Neg", "one_of_them", T=_F)
