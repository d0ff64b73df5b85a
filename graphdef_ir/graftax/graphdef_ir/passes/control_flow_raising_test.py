"""Raising TF1 control flow: the resulting functions, and the graphs that raise."""

import dataclasses

import numpy as np
import pytest

from graftax.graphdef_ir.budget import Limits
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.errors import (
  DeadBranchError,
  IrreducibleControlFlowError,
  LimitExceededError,
  UnknownOpError,
)
from graftax.graphdef_ir.graph import Function, Node, Parameter, Result, TensorRef
from graftax.graphdef_ir.graph.library import FunctionLibrary
from graftax.graphdef_ir.graph.text import format_function
from graftax.graphdef_ir.passes.control_flow_raising import raise_control_flow
from graftax.graphdef_ir.tensors import Tensor
from graftax.graphdef_ir.validation import validate_function

_PARAMETERS = {
  "x": DType.FLOAT,
  "y": DType.FLOAT,
  "p": DType.BOOL,
  "q": DType.BOOL,
  "n": DType.INT32,
  "v": DType.RESOURCE,
  "r": DType.FLOAT_REF,
}
_WITHOUT_TYPE = frozenset({"LoopCond", "NoOp", "Const", "AssignVariableOp", "Mystery"})


def _node(text: str) -> Node:
  """Returns a node written `name = Op input input:1 ^control`; `:i` after the op makes its type int32, `:b` bool."""
  name, _, rest = text.partition(" = ")
  op, *inputs = rest.split()
  op, _, kind = op.partition(":")
  dtype = {"": DType.FLOAT, "i": DType.INT32, "b": DType.BOOL, "r": DType.RESOURCE}[kind]
  attrs = {} if op in _WITHOUT_TYPE else {"T": dtype}
  match op:
    case "Const":
      attrs = {"dtype": dtype, "value": Tensor.from_numpy(np.ones([], dtype.numpy))}
    case "AssignVariableOp" | "ReadVariableOp":
      attrs = {"dtype": DType.FLOAT}
    case "StackV2" | "StackPopV2":
      attrs = {"elem_type": DType.FLOAT}
    case "Merge":
      attrs["N"] = 2
    case "_SwitchN":
      attrs["num_outs"] = int(name)
    case "Enter" | "RefEnter":
      attrs |= {"frame_name": name.partition("/")[0].encode(), "is_constant": "constant" in name}
  data = tuple(TensorRef.parse(text) for text in inputs if text[0] != "^")
  return Node(name, op, data, tuple(text[1:] for text in inputs if text[0] == "^"), attrs)


def _function(nodes: str, results: str, runs: tuple[str, ...] = ()) -> Function:
  parsed = tuple(_node(line.strip()) for line in nodes.splitlines() if line.strip())
  read = {ref.node for node in parsed for ref in node.inputs} | {TensorRef.parse(ref).node for ref in results.split()}
  parameters = tuple(Parameter(name, dtype) for name, dtype in _PARAMETERS.items() if name in read)
  returned = tuple(Result(ref, TensorRef.parse(ref), DType.INVALID) for ref in results.split())
  return Function("f", parameters, returned, parsed, runs)


def _raised(nodes: str, results: str, runs: tuple[str, ...] = ()) -> str:
  """Returns the text of the raised function and of the functions that it needs, without shapes and types of nodes."""
  function, library = raise_control_flow(_function(nodes, results, runs), FunctionLibrary())
  validate_function(function, library)
  for name in library:
    validate_function(library[name], library)
  blocks = [format_function(f) for f in (function, *library.values())]
  lines = "\n".join(blocks).replace("[unknown rank]", "").splitlines()
  return "\n".join(_without_attributes(line) for line in lines)


def _without_attributes(line: str) -> str:
  call, brace, attrs = line.partition(" {")
  if not brace or not any(f" {op}(" in call for op in ("If", "While", "StatelessIf", "StatelessWhile")):
    return call
  functions = [text for text in attrs.rstrip("}").split(", ") if "=@" in text]
  return f"{call} {' '.join(functions)}"


def _expect(actual: str, expected: str) -> None:
  wanted = [line[4:] for line in expected.strip("\n").splitlines()]
  assert actual.splitlines() == [line for line in wanted if line]


_COND = """
    switch = Switch x p
    pivot = Switch:b p p
    switch_t = Identity:b pivot:1
    one = Const ^switch_t
    sum = AddV2 switch:1 one
    neg = Neg switch
    cond/merge = Merge neg sum
"""


def test_a_conditional_is_a_stateless_if():
  _expect(
    _raised(_COND + "z = Mul cond/merge y", "z"),
    """
    function f(x: float32, y: float32, p: bool) -> (z: $T)
      cond = StatelessIf(p, x) else_branch=@f/cond/else then_branch=@f/cond/then
      z = Mul(cond, y)
      return z
    function f/cond/then(x: float32) -> (result_0: float32)
      one = Const()
      sum = AddV2(x, one)
      return sum
    function f/cond/else(x: float32) -> (result_0: float32)
      neg = Neg(x)
      return neg
    """.replace("$T", "invalid"),
  )


def test_merges_of_one_predicate_share_an_if_unless_one_waits_for_the_other():
  nodes = """
    a = Switch x p
    neg = Neg a:1
    m1 = Merge a neg
    b = Switch y p
    m2 = Merge b b:1
    z = Mul m1 m2
    c = Switch z p
    sin = Sin c:1
    m3 = Merge c sin
  """
  text = _raised(nodes, "m3")
  assert [line.split(" {")[0].strip() for line in text.splitlines()[1:5]] == [
    "m1_1 = StatelessIf(p, x, y) else_branch=@f/m1/else then_branch=@f/m1/then",
    "z = Mul(m1_1, m1_1:1)",
    "m3_1 = StatelessIf(p, z) else_branch=@f/m3/else then_branch=@f/m3/then",
    "return m3_1",
  ]


def test_conditionals_in_branches_become_ifs_in_branches():
  nodes = """
    qs = Switch:b q p
    xs = Switch x p
    inner = Switch xs:1 qs:1
    neg = Neg inner:1
    in/merge = Merge inner neg
    out/merge = Merge xs in/merge
  """
  _expect(
    _raised(nodes, "out/merge out/merge:1"),
    """
    function f(x: float32, p: bool, q: bool) -> (out/merge: invalid, out/merge:1: invalid)
      out = StatelessIf(p, q, x) else_branch=@f/out/else then_branch=@f/out/then
      return out, out:1
    function f/in/then(x: float32) -> (result_0: float32)
      neg = Neg(x)
      return neg
    function f/in/else(x: float32) -> (result_0: float32)
      return x
    function f/out/then(q: bool, x: float32) -> (result_0: float32, result_1: int32)
      out/merge/value_index_1 = Const()
      in = StatelessIf(q, x) else_branch=@f/in/else then_branch=@f/in/then
      return in, out/merge/value_index_1
    function f/out/else(q: bool, x: float32) -> (result_0: float32, result_1: int32)
      out/merge/value_index = Const()
      return x, out/merge/value_index
    """,
  )


def test_assignments_in_branches_make_the_if_stateful_and_keep_their_place():
  nodes = """
    handle = Switch:r v p
    value = Switch x p
    assign = AssignVariableOp handle:1 value:1
    pivot = Identity value:1 ^assign
    merge = Merge value pivot
    read = ReadVariableOp v ^merge
  """
  _expect(
    _raised(nodes, "read"),
    """
    function f(x: float32, p: bool, v: resource) -> (read: invalid)
      merge_1 = If(p, v, x) else_branch=@f/merge/else then_branch=@f/merge/then
      read = ReadVariableOp(v, ^merge_1)
      return read
    function f/merge/then(v: resource, x: float32) -> (result_0: float32) stateful
      assign = AssignVariableOp(v, x)
      pivot = Identity(x, ^assign)
      run assign
      return pivot
    function f/merge/else(v: resource, x: float32) -> (result_0: float32)
      return x
    """,
  )


def test_effects_that_no_merge_waits_for_run_in_an_if_of_their_own():
  nodes = """
    handle = Switch:r v p
    value = Switch x p
    yes = AssignVariableOp handle:1 value:1
    neg = Neg value
    no = AssignVariableOp handle neg
  """
  _expect(
    _raised(nodes, "", ("yes", "no")),
    """
    function f(x: float32, p: bool, v: resource) -> ()
      p/cond = If(p, v, x) else_branch=@f/p/else then_branch=@f/p/then
      run p/cond
      return
    function f/p/then(v: resource, x: float32) -> () stateful
      yes = AssignVariableOp(v, x)
      run yes
      return
    function f/p/else(v: resource, x: float32) -> () stateful
      neg = Neg(x)
      no = AssignVariableOp(v, neg)
      run no
      return
    """.replace("p/cond", "p_1"),
  )


def test_reference_variables_enter_branches_as_references_and_leave_as_values():
  nodes = """
    ref = RefSwitch r p
    value = Switch x p
    assign = Assign ref:1 value:1
    merge = Merge value assign
  """
  _expect(
    _raised(nodes, "merge"),
    """
    function f(x: float32, p: bool, r: float32_ref) -> (merge: invalid)
      merge_1 = If(p, r, x) else_branch=@f/merge/else then_branch=@f/merge/then
      return merge_1
    function f/merge/then(r: float32_ref, x: float32) -> (result_0: float32) stateful
      assign = Assign(r, x)
      run assign
      return assign
    function f/merge/else(r: float32_ref, x: float32) -> (result_0: float32)
      return x
    """,
  )


_WHILE = """
    i0 = Const:i
    w/enter_i = Enter:i i0
    w/enter_x = Enter x
    w/constant_n = Enter:i n
    w/constant_y = Enter y
    w/merge_i = Merge:i w/enter_i w/next_i
    w/merge_x = Merge w/enter_x w/next_x
    w/less = Less:i w/merge_i w/constant_n
    w/cond = LoopCond w/less
    w/switch_i = Switch:i w/merge_i w/cond
    w/switch_x = Switch w/merge_x w/cond
    w/one = Const:i ^w/switch_i
    w/add = AddV2:i w/switch_i:1 w/one
"""
_WHILE_END = """
    w/next_i = NextIteration:i w/add
    w/exit_x = Exit w/switch_x
"""


def test_a_frame_is_a_stateless_while_with_invariants_as_further_variables():
  nodes = (
    _WHILE + "w/mul = Mul w/switch_x:1 w/constant_y\n w/next_x = NextIteration w/mul" + _WHILE_END + "z = Neg w/exit_x"
  )
  _expect(
    _raised(nodes, "z"),
    """
    function f(x: float32, y: float32, n: int32) -> (z: invalid)
      i0 = Const()
      w = StatelessWhile(i0, x, n, y) body=@f/w/body cond=@f/w/cond
      z = Neg(w:1)
      return z
    function f/w/cond(w_merge_i: int32, w_merge_x: float32, n: int32, y: float32) -> (result_0: bool)
      w/less = Less(w_merge_i, n)
      return w/less
    function f/w/body(w_merge_i: int32, w_merge_x: float32, n: int32, y: float32)"""
    """ -> (result_0: int32, result_1: float32, result_2: int32, result_3: float32)
      w/one = Const()
      w/add = AddV2(w_merge_i, w/one)
      w/mul = Mul(w_merge_x, y)
      return w/add, w/mul, n, y
    """,
  )


def test_a_loop_in_a_loop_and_a_conditional_in_that():
  inner = """
    w/p = Enter:b p
    u/enter = Enter w/switch_x:1
    u/constant_p = Enter:b w/p
    u/merge = Merge u/enter u/next
    u/zero = Const ^u/merge
    u/less = Less u/merge u/zero
    u/cond = LoopCond u/less
    u/switch = Switch u/merge u/cond
    u/pick = Switch u/switch:1 u/constant_p
    u/sin = Sin u/pick:1
    u/join = Merge u/pick u/sin
    u/next = NextIteration u/join
    u/exit = Exit u/switch
    w/next_x = NextIteration u/exit
  """
  _expect(
    _raised(_WHILE + inner + _WHILE_END, "w/exit_x"),
    """
    function f(x: float32, y: float32, p: bool, n: int32) -> (w/exit_x: invalid)
      i0 = Const()
      w = StatelessWhile(i0, x, n, p) body=@f/w/body cond=@f/w/cond
      return w:1
    function f/u/then(u_merge: float32) -> (result_0: float32)
      u/sin = Sin(u_merge)
      return u/sin
    function f/u/else(u_merge: float32) -> (result_0: float32)
      return u_merge
    function f/u/cond(u_merge: float32, w_p: bool) -> (result_0: bool)
      u/zero = Const()
      u/less = Less(u_merge, u/zero)
      return u/less
    function f/u/body(u_merge: float32, w_p: bool) -> (result_0: float32, result_1: bool)
      u = StatelessIf(w_p, u_merge) else_branch=@f/u/else then_branch=@f/u/then
      return u, w_p
    function f/w/cond(w_merge_i: int32, w_merge_x: float32, n: int32, p: bool) -> (result_0: bool)
      w/less = Less(w_merge_i, n)
      return w/less
    function f/w/body(w_merge_i: int32, w_merge_x: float32, n: int32, p: bool)"""
    """ -> (result_0: int32, result_1: float32, result_2: int32, result_3: bool)
      w/one = Const()
      w/add = AddV2(w_merge_i, w/one)
      u_1 = StatelessWhile(w_merge_x, p) body=@f/u/body cond=@f/u/cond
      return w/add, u_1, n, p
    """,
  )


def test_assignments_in_a_body_run_in_every_iteration():
  body = """
    w/constant_v = Enter:r v
    w/assign = AssignVariableOp w/constant_v w/switch_x:1
    w/same = Identity w/switch_x:1 ^w/assign
    w/next_x = NextIteration w/same
  """
  text = _raised(_WHILE + body + _WHILE_END + "read = ReadVariableOp v ^w/exit_x", "read")
  assert "w = While(i0, x, n, v)" in text
  assert "read = ReadVariableOp(v, ^w)" in text
  assert "run w/assign" in text


def test_functions_without_such_nodes_are_returned_as_they_are():
  function, library = _function("z = Neg x", "z"), FunctionLibrary()
  raised, same = raise_control_flow(function, library)
  assert raised is function
  assert same is library


def test_functions_that_are_called_are_raised_too():
  called = Function(
    "g", *(getattr(_function(_COND, "cond/merge"), name) for name in ("parameters", "results", "nodes"))
  )
  root = Function("f", called.parameters, (), (Node("call", "g", (TensorRef("x"), TensorRef("p"))),), ("call",))
  raised, library = raise_control_flow(root, FunctionLibrary({"g": called}))
  assert raised is root
  assert [node.op for node in library["g"].nodes] == ["StatelessIf"]
  assert sorted(library) == ["g", "g/cond/else", "g/cond/then"]


def test_a_branch_that_never_runs_is_left_out():
  nodes = """
    a = Switch x p
    b = Switch a q
    c = Switch a:1 q
    never = AddV2 b:1 c
    m = Merge never c:1
    inner = Merge c m
    out = Merge a inner
  """
  text = _raised(nodes, "out")
  assert "never" not in text


def test_equal_constants_are_one_predicate():
  # What TensorFlow's optimizer makes of `tf.cond(True, ...)`: it folds each Identity of the predicate.
  nodes = """
    true = Const:b
    folded = Const:b
    pivot = Switch:b true true
    switch_f = Identity:b pivot
    one = Const ^switch_f
    switch = Switch x folded
    neg = Neg switch:1
    cond/merge = Merge one neg
  """
  _expect(
    _raised(nodes, "cond/merge"),
    """
    function f(x: float32) -> (cond/merge: invalid)
      true = Const()
      folded = Const()
      cond = StatelessIf(true, x) else_branch=@f/cond/else then_branch=@f/cond/then
      return cond
    function f/cond/then(x: float32) -> (result_0: float32)
      neg = Neg(x)
      return neg
    function f/cond/else(x: float32) -> (result_0: float32)
      one = Const()
      return one
    """,
  )


def test_a_constant_of_a_branch_stays_its_predicate():
  nodes = """
    outer = Switch:b p p
    pivot = Identity:b outer:1
    inside = Const:b ^pivot
    xs = Switch x p
    s1 = Switch xs:1 inside
    neg = Neg s1:1
    always = Const:b
    z = Switch y always
    zt = Neg z:1
    zm = Merge z zt
    pos = Abs s1
    inner = Merge pos neg
    out = Merge xs inner
    sum = AddV2 out zm
  """
  text = str(_raised(nodes, "sum"))
  assert "StatelessIf(p, x)" in text and "StatelessIf(inside" in text


def test_equal_constants_of_a_branch_are_one_predicate():
  nodes = """
    outer = Switch:b p p
    pivot = Identity:b outer:1
    inside = Const:b ^pivot
    folded = Const:b ^pivot
    xs = Switch x p
    s1 = Switch xs:1 inside
    s2 = Switch xs:1 folded
    neg = Neg s1:1
    pos = Abs s2
    inner = Merge pos neg
    out = Merge xs inner
  """
  assert "StatelessIf(inside" in str(_raised(nodes, "out"))


def test_constants_of_other_branches_are_other_predicates():
  nodes = """
    true = Const:b
    a = Switch x true
    pivot_switch = Switch:b true true
    pivot = Identity:b pivot_switch
    same = Const:b ^pivot
    b = Switch a same
    d = Switch b:1 q
    dn = Neg d:1
    dm = Merge d dn
    inner = Merge b dm
    out = Merge inner a:1
  """
  text = str(_raised(nodes, "out"))
  assert "StatelessIf(true" in text and "StatelessIf(same" in text


def test_a_conditional_that_never_runs_is_left_out():
  nodes = """
    a = Switch x p
    b = Switch a:1 p
    d = Switch b q
    never = Neg d:1
    dm = Merge d never
    inner = Merge dm b:1
    out = Merge a inner
  """
  assert "never" not in str(_raised(nodes, "out"))


@pytest.mark.parametrize(
  ("nodes", "result", "error", "message"),
  [
    (
      "s = Switch x p\n neg = Neg s:1",
      "neg",
      DeadBranchError,
      "function 'f': 'neg' exists only if 'p' is true, but is needed in any case",
    ),
    (
      "a = Switch x p\n b = Switch x q\n m = Merge a b:1",
      "m",
      IrreducibleControlFlowError,
      r"node 'm' \(Merge\): .* conditional: 'a' runs when 'p' is false; 'b:1' runs when 'q' is true",
    ),
    (
      "a = Switch x p\n m = Merge a y",
      "m",
      IrreducibleControlFlowError,
      "'a' runs when 'p' is false; 'y' runs when always",
    ),
    (
      "w/enter = Enter x\n z = Neg w/enter\n w/exit = Exit z",
      "w/exit",
      IrreducibleControlFlowError,
      r"frame 'w': has 0 LoopCond nodes \[\]; expected one",
    ),
    (
      "w/enter = Enter x\n u/enter = Enter y\n z = AddV2 w/enter u/enter\n w/exit = Exit z",
      "w/exit",
      IrreducibleControlFlowError,
      r"node 'z' \(AddV2\): its inputs 'w/enter' and 'u/enter' are in the frames 'w' and 'u'",
    ),
    (
      _WHILE
      + "w/neg = Neg w/switch_x:1\n w/next_x = NextIteration w/neg\n"
      + " w/next_i = NextIteration:i w/add\n w/exit = Exit w/neg",
      "w/exit",
      IrreducibleControlFlowError,
      "frame 'w': Exit 'w/exit' of 'w/neg'; expected the last value of a loop variable",
    ),
    (
      _WHILE
      + "w/next_x = NextIteration w/switch_y:1\n w/neg = Neg w/merge_x\n w/switch_y = Switch w/neg w/cond"
      + _WHILE_END,
      "w/exit_x",
      IrreducibleControlFlowError,
      "Switch 'w/switch_y' on the loop's condition has input 'w/neg'; expected a loop variable",
    ),
    (
      "s = Mystery\n a = Switch s p\n neg = Neg a\n m = Merge neg a:1",
      "m",
      UnknownOpError,
      "node 's': op 'Mystery' has no known signature, so the type of 's'",
    ),
  ],
)
def test_what_is_not_a_conditional_or_loop_raises(nodes: str, result: str, error: type[Exception], message: str):
  with pytest.raises(error, match=message):
    raise_control_flow(_function(nodes, result), FunctionLibrary())


def test_an_effect_is_not_run_twice():
  nodes = """
    a = Switch x p
    r = RandomStandardNormal a:1
    m1 = Merge a r
    z = Neg m1
    b = Switch z p
    mul = Mul b:1 r
    m2 = Merge b mul
  """
  with pytest.raises(IrreducibleControlFlowError, match=r"'r' \(RandomStandardNormal\) has an effect and is read by"):
    raise_control_flow(_function(nodes, "m2"), FunctionLibrary())


def test_a_stack_between_two_loops_is_a_tensor_list_that_both_hand_on():
  push = """
    size = Const:i
    stack = StackV2 size
    w/constant_s = Enter:r stack
    w/push = StackPushV2 w/constant_s w/switch_x:1
    w/neg = Neg w/push
    w/next_x = NextIteration w/neg
  """
  pop = """
    u/enter = Enter w/exit_x
    u/constant_s = Enter:r stack
    u/merge = Merge u/enter u/next
    u/zero = Const ^u/merge
    u/less = Less u/merge u/zero
    u/cond = LoopCond u/less
    u/switch = Switch u/merge u/cond
    u/pop = StackPopV2 u/constant_s ^u/switch
    u/sum = AddV2 u/switch:1 u/pop
    u/next = NextIteration u/sum
    u/exit = Exit u/switch
  """
  text = _raised(_WHILE + push + _WHILE_END + pop, "u/exit")
  for line in (
    "stack = EmptyTensorList(element_shape, size)",
    "w = While(i0, x, n, stack) body=@f/w/body cond=@f/w/cond",
    "u = While(w:1, w:3) body=@f/u/body cond=@f/u/cond",
    "w/push = TensorListPushBack(stack, w_merge_x)",
    "u/pop = TensorListPopBack(stack, element_shape)",
    "u/sum = AddV2(u_merge, u/pop:1)",
    "return u/sum, u/pop",
  ):
    assert f"  {line}\n" in text + "\n", line


def test_a_loop_in_a_conditional_may_ask_for_its_predicate_again():
  nodes = """
    value = Switch x p
    l/enter = Enter value:1
    l/constant_p = Enter:b p
    l/merge = Merge l/enter l/next
    l/zero = Const ^l/merge
    l/less = Less l/merge l/zero
    l/cond = LoopCond l/less
    l/switch = Switch l/merge l/cond
    l/again = Switch l/switch:1 l/constant_p
    l/sin = Sin l/again:1
    l/next = NextIteration l/sin
    l/exit = Exit l/switch
    join = Merge value l/exit
  """
  text = _raised(nodes, "join")
  assert "  l/sin = Sin(l_merge)\n" in text
  assert "join_1 = StatelessIf(p, x) else_branch=@f/join/else then_branch=@f/join/then" in text


def test_branches_that_multiply_raise():
  lines, x = [], "x"
  for level in range(30):  # two conditionals on one predicate, of which each needs what the next level computes
    lines += [f"s{level} = Switch {x} p{level}"]
    x = f"s{level}:1"
  lines += [f"n30 = Neg {x}"]
  for level in reversed(range(30)):
    lines += [
      f"m{level} = Merge s{level} n{level + 1}",
      f"t{level} = Switch m{level} p{level}",
      f"a{level} = AddV2 t{level}:1 n{level + 1}",
      f"n{level} = Merge t{level} a{level}",
    ]
  function = _function("\n".join(lines), "n0")
  predicates = tuple(Parameter(f"p{level}", DType.BOOL) for level in range(30))
  function = dataclasses.replace(function, parameters=(*function.parameters, *predicates))
  with pytest.raises(LimitExceededError, match="^function 'f', for its conditionals, needs more than 1000 steps"):
    raise_control_flow(function, FunctionLibrary(), limits=Limits(steps=1000, steps_per_node=0))


def test_outputs_of_a_switch_are_counted_before_they_become_switches():
  function = _function("1000000000 = _SwitchN x i", "1000000000:1")
  with pytest.raises(LimitExceededError, match="^function 'f', for the outputs of its _SwitchN nodes, needs more than"):
    raise_control_flow(function, FunctionLibrary())


def test_a_negative_number_of_outputs_does_not_make_up_for_a_large_one():
  function = _function("5000 = _SwitchN x i\n-4999 = _SwitchN x i", "5000:1 -4999")
  with pytest.raises(LimitExceededError, match="^function 'f', for the outputs of its _SwitchN nodes, needs more than"):
    raise_control_flow(function, FunctionLibrary(), limits=Limits(steps=1000, steps_per_node=0))
