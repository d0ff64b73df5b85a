"""Order, consumers, ancestors, reachable functions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftax.graphdef_ir.attributes import FunctionRef
from graftax.graphdef_ir.errors import CycleError
from graftax.graphdef_ir.graph import Function, Graph, Node, TensorRef
from graftax.graphdef_ir.graph.library import FunctionLibrary
from graftax.graphdef_ir.graph.traverse import (
  ancestors,
  consumers,
  follow_calls,
  function_references,
  predecessors,
  reachable_functions,
  referenced_functions,
  topological_order,
)


def _node(name: str, *inputs: str, op: str = "Op", after: tuple[str, ...] = ()) -> Node:
  return Node(name, op, tuple(TensorRef.parse(text) for text in inputs), after)


def _names(nodes: tuple[Node, ...]) -> str:
  return " ".join(node.name for node in nodes)


def test_sorted_nodes_keep_their_order():
  nodes = (_node("b"), _node("a"), _node("c", "a", "b:3"))
  assert topological_order(nodes) == nodes


def test_nodes_come_after_data_and_control_inputs():
  assert _names(topological_order((_node("c", "b"), _node("b", after=("a",)), _node("a")))) == "a b c"


def test_unrelated_nodes_stay_where_they_were():
  assert _names(topological_order((_node("z"), _node("c", "b"), _node("y"), _node("b"), _node("x")))) == "z y b c x"


def test_inputs_from_elsewhere_do_not_count():
  assert _names(topological_order((_node("a", "parameter"),))) == "a"


@given(
  st.integers(1, 12).flatmap(lambda n: st.tuples(st.permutations(range(n)), st.lists(st.integers(0, 99), max_size=30)))
)
def test_any_acyclic_graph_is_ordered(case: tuple[list[int], list[int]]):
  labels, numbers = case
  edges = {(number % len(labels), number // 7 % len(labels)) for number in numbers}
  nodes = [
    Node(str(label), "Op", tuple(TensorRef(str(a)) for a, b in sorted(edges) if b == label and a < b))
    for label in labels
  ]
  position = {node.name: index for index, node in enumerate(topological_order(nodes))}
  assert len(position) == len(nodes)
  assert all(position[name] < position[node.name] for node in nodes for name in predecessors(node))


def test_a_cycle_is_shown():
  with pytest.raises(CycleError, match=r"cycle: (a -> b -> c -> a|b -> c -> a -> b|c -> a -> b -> c);"):
    topological_order((_node("x"), _node("a", "c", "x"), _node("b", "a"), _node("c", after=("b",)), _node("d", "c")))
  with pytest.raises(CycleError, match="cycle: a -> a;"):
    topological_order((_node("a", "a"),))


def test_a_long_cycle_is_shown_in_part():
  nodes = [_node(f"n{i}", f"n{(i - 1) % 1000}") for i in range(1000)]
  with pytest.raises(CycleError, match=r"\.\.\. 989 more \.\.\.") as caught:
    topological_order(nodes)
  assert len(str(caught.value)) < 300


def test_while_loops_of_tf1_are_not_cycles():
  loop = (
    _node("merge", "enter", "next", op="Merge"),
    _node("next", "merge", op="NextIteration"),
    _node("enter", op="Enter"),
  )
  assert _names(topological_order(loop)) == "enter merge next"


def test_a_chain_of_a_hundred_thousand_nodes_is_no_problem():
  nodes = [_node(f"n{i}", f"n{i - 1}") for i in reversed(range(1, 100_000))]
  assert topological_order(nodes)[0].name == "n1"


def test_consumers_are_listed_once():
  reader = _node("r", "a", "a", "b:1")
  assert consumers([_node("a"), reader]) == {TensorRef("a"): (reader,), TensorRef("b", 1): (reader,)}


def test_ancestors_follow_data_and_control():
  nodes = {n.name: n for n in (_node("a"), _node("b", "a"), _node("c", after=("b",)), _node("d"), _node("e", "p"))}
  assert ancestors(nodes, ["c", "e"]) == {"a", "b", "c", "e"}


def test_function_references_are_found_inside_lists_and_functions():
  inner = FunctionRef("inner")
  attrs = {"branches": (FunctionRef("a"), FunctionRef("b", {"f": inner})), "n": 3}
  assert [reference.name for reference in function_references(attrs)] == ["a", "b", "inner"]


def _calls(name: str, *called: str) -> Function:
  nodes = tuple(Node(f"n{i}", "PartitionedCall", attrs={"f": FunctionRef(other)}) for i, other in enumerate(called))
  return Function(name, (), (), nodes)


def test_referenced_functions_are_those_of_the_library():
  library = FunctionLibrary({f.name: f for f in (_calls("a"), _calls("b"))})
  node = Node("n", "b", attrs={"f": FunctionRef("a"), "g": FunctionRef("missing")})
  assert list(referenced_functions(node, library)) == ["b", "a"]


def test_calls_are_followed_only_as_far_as_they_are_asked_for():
  calls = {"a": ["b"], "b": ["a", "c"]}
  followed = follow_calls(["a"], calls.__getitem__)
  assert [next(followed), next(followed), next(followed)] == ["a", "b", "c"]
  with pytest.raises(KeyError, match="c"):
    next(followed)


def test_reachable_functions_are_listed_depth_first_and_once():
  library = FunctionLibrary(
    {f.name: f for f in (_calls("a", "b", "c"), _calls("b", "a", "c"), _calls("c"), _calls("d"))}
  )
  assert reachable_functions(_calls("root", "a", "missing"), library) == ("a", "b", "c")
  by_name = Graph((Node("n", "c"),), library)
  assert reachable_functions(by_name, library) == ("c",)


def test_a_chain_of_functions_is_followed_to_its_end():
  library = FunctionLibrary({f"f{i}": _calls(f"f{i}", f"f{i + 1}") for i in range(5000)})
  assert len(reachable_functions(library["f0"], library)) == 4999
