"""Functions of signatures."""

import jax
import numpy as np

from graftax.convert import jax_program
from graftax.savedmodel_io.writing.signature_functions import signature_function


def test_each_result_is_the_first_output_of_a_node_of_its_own():
  spec = jax.ShapeDtypeStruct((2,), np.float32)
  program = jax_program(lambda x: {"b": x + 1, "a": x * 2}, [spec], lowering="tf_ops")
  function = signature_function("serving_default", program, "wrapper").function
  nodes = {node.name: node for node in function.nodes}
  refs = [result.ref for result in function.results]
  assert [ref.index for ref in refs] == [0, 0]
  assert [nodes[ref.node].inputs[0].index for ref in refs] == [0, 1]
