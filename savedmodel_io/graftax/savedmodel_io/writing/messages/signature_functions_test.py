"""Functions of signatures."""

import jax
import numpy as np

from graftax.convert import jax_program
from graftax.savedmodel_io.writing.messages.signature_functions import signature_function


def test_each_result_is_the_first_output_of_a_node_of_its_own():
  spec = jax.ShapeDtypeStruct((2,), np.float32)
  program = jax_program(lambda x: {"b": x + 1, "a": x * 2}, [spec], lowering="tf_ops")
  function = signature_function("serving_default", program, "wrapper").function
  nodes = {node.name: node for node in function.nodes}
  refs = [result.ref for result in function.results]
  assert [ref.index for ref in refs] == [0, 0]
  assert [nodes[ref.node].inputs[0].index for ref in refs] == [0, 1]


def test_nodes_are_named_after_inputs_and_results_if_names_allow_it():
  spec = jax.ShapeDtypeStruct((2,), np.float32)

  def function(rows, call, Upper):
    return {"rows": rows + call, "total": rows - Upper, "result_0": rows}

  program = jax_program(function, [], {"rows": spec, "call": spec, "Upper": spec}, lowering="tf_ops")
  wrapper = signature_function("serving_default", program, "wrapper")
  names = dict(zip(wrapper.inputs, (parameter.name for parameter in wrapper.function.parameters), strict=True))
  assert names == {"Upper": "input_0", "call": "input_1", "rows": "rows"}
  results = dict(zip(wrapper.outputs, (result.ref.node for result in wrapper.function.results), strict=True))
  assert results == {"result_0": "result_0", "rows": "result_1", "total": "total"}
