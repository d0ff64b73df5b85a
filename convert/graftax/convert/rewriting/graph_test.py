"""Graphs with XlaCallModule nodes, rewritten and converted."""

import jax
import numpy as np
import pytest

from graftax.convert import ConversionError, convert_program, jax_program
from graftax.convert.rewriting import Consumer, rewrite_graph
from graftax.graphdef_ir import Limits, function_to_proto, graph_from_proto, schema

_X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def _graph(function, **options):
  """Returns a graph whose function `main` calls a module with an open batch, and the program."""
  rows = jax.ShapeDtypeStruct(jax.export.symbolic_shape("b, 3"), np.float32)
  program = jax_program(function, [rows], name="main", **options)
  graph = schema.GraphDef()
  for part in (program.function, *program.library.values()):
    graph.library.function.append(function_to_proto(part, program.library))
  return graph, program


def _main(graph, program):
  """Returns the program with the functions of a graph, as a JAX function."""
  library = graph_from_proto(graph).library
  name = program.function.name
  import dataclasses

  fn, params = convert_program(dataclasses.replace(program, function=library[name], library=library))
  return lambda x: fn(params, x)[0]


def _ops(graph):
  return {node.op for function in graph.library.function for node in function.node_def}


def _function(x):
  return jax.nn.softmax(x) * 2 + x.shape[0]


@pytest.mark.parametrize("consumer", ["tensorflow-2.15", "tensorflow-2.13", "tfjs"])
def test_all_functions_compute_the_same_afterwards(consumer):
  graph, program = _graph(_function)
  report = rewrite_graph(graph, consumer)
  assert report.num_nodes == 3  # the function and two orders of gradients
  assert (report.num_plain == 3) == (consumer != "tensorflow-2.15")
  assert ("XlaCallModule" in _ops(graph)) == (consumer == "tensorflow-2.15")
  call = _main(graph, program)
  for rows in (1, 2):
    np.testing.assert_allclose(call(_X[:rows]), _function(_X[:rows]), rtol=1e-6)
  np.testing.assert_allclose(
    jax.grad(lambda x: call(x)[:, 0].sum())(_X), jax.grad(lambda x: _function(x)[:, 0].sum())(_X), atol=1e-6
  )


def test_nodes_with_equal_modules_share_one_plain_function():
  graph, _ = _graph(_function)
  (node,) = (n for n in graph.library.function[0].node_def if n.op == "XlaCallModule")
  before = len(graph.library.function)
  copy = graph.library.function[0].node_def.add()
  copy.CopyFrom(node)
  copy.name = "again"
  rewrite_graph(graph, "plain")
  names = [n.attr["f"].func.name for n in graph.library.function[0].node_def if n.op == "PartitionedCall"]
  assert len(names) == 2
  assert len(set(names)) == 1
  assert len({f.signature.name for f in graph.library.function}) == len(graph.library.function) > before


@pytest.mark.parametrize("consumer, op", [("onnx", "Identity"), ("plain", "PreventGradient")])
def test_converters_get_no_refusals_of_gradients(consumer, op):
  graph, _ = _graph(_function)
  node = graph.node.add(name="refusal", op="PreventGradient", input=["x"])
  node.attr["T"].type = 1
  node.attr["message"].s = b"no gradient"
  rewrite_graph(graph, consumer)
  assert node.op == op
  assert ("message" in node.attr) == (op == "PreventGradient")


def test_platforms_are_refused_for_a_consumer_that_has_none_and_if_they_are_not_known():
  for consumer, platforms, message in (
    ("tflite", ["cpu"], r"platforms \['cpu'\] cannot be chosen for 'tflite'"),
    ("plain", ["gpu"], r"platforms=\['gpu'\]; expected None"),
    ("tensorflow-2.16", [], r"platforms=\[\]; expected None"),
  ):
    with pytest.raises(ConversionError, match=message):
      rewrite_graph(schema.GraphDef(), consumer, platforms=platforms)


def test_nodes_share_one_budget():
  graph, _ = _graph(_function)
  (node,) = (n for n in graph.library.function[0].node_def if n.op == "XlaCallModule")
  limits = Limits(steps=400, steps_per_node=0)
  rewrite_graph(_copied(graph), "plain", limits=limits)
  for number in range(40):
    copy = graph.library.function[0].node_def.add()
    copy.CopyFrom(node)
    copy.name = f"again_{number}"
    copy.attr["disabled_checks"].list.s.append(b"custom_call:%d" % number)  # so that it is another module
  with pytest.raises(ConversionError, match=r"node 'again_\d+'.* steps, and with the modules before it \d+ beyond"):
    rewrite_graph(graph, "plain", limits=limits)


def _copied(graph):
  copy = schema.GraphDef()
  copy.CopyFrom(graph)
  return copy


def test_an_error_names_the_node_and_its_function():
  graph, program = _graph(_function)
  (node,) = (n for n in graph.library.function[0].node_def if n.op == "XlaCallModule")
  node.attr["module"].s = b"func.func public @main("
  with pytest.raises(ConversionError, match=f"{node.name!r} of function {program.function.name!r}.*tensorflow-2.16"):
    rewrite_graph(graph, "tensorflow-2.16")


def test_a_node_whose_inputs_its_module_does_not_take_has_no_plain_form():
  for change, message in (
    (lambda node: node.input.append(node.input[0]), "the node has 2 inputs, and its module takes 1"),
    (lambda node: node.attr["Tin"].list.type.append(1), r"arguments of the node are .* and those of its module"),
  ):
    graph, _ = _graph(_function)
    (node,) = (n for n in graph.library.function[0].node_def if n.op == "XlaCallModule")
    change(node)
    with pytest.raises(ConversionError, match=message):
      rewrite_graph(graph, "plain")


@pytest.mark.parametrize("name", ["tensorflow-1", "torch", "tensorflow-2", "", None])
def test_an_unknown_consumer_is_an_error(name):
  with pytest.raises(ConversionError, match=r"expected 'tensorflow', a release such as 'tensorflow-2\.16'"):
    Consumer.of(name)
