"""What cannot be converted, and what the message says of it. No TensorFlow."""

import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graftax.convert
from graftax.convert import ConversionError, convert
from graftax.graphdef_ir import DType, schema
from graftax.ops_jax import UnsupportedOpError


def test_keras_files_are_told_what_reads_them(tmp_path):
  with zipfile.ZipFile(tmp_path / "model.keras", "w") as archive:
    archive.writestr("config.json", "{}")
  with pytest.raises(ConversionError, match=r"model.keras: It is a zip archive.*keras.models.load_model"):
    convert(tmp_path / "model.keras")
  with pytest.raises(ConversionError, match=r"GraphDef: It is an HDF5 file.*keras.models.load_model"):
    convert(b"\x89HDF\r\n\x1a\n" + bytes(100))


def test_jax_functions_are_told_apart():
  with pytest.raises(ConversionError, match="JAX function already"):
    convert(jnp.sin)


def _hashed_text():
  """A frozen graph that turns hashes of words into numbers."""
  graph = schema.GraphDef()
  graph.versions.producer = 1882
  text = graph.node.add(name="text", op="Placeholder")
  text.attr["dtype"].type = DType.STRING.value
  graph.node.add(name="hash", op="StringToHashBucketFast", input=["text"]).attr["num_buckets"].i = 5
  number = graph.node.add(name="number", op="Cast", input=["hash"])
  number.attr["SrcT"].type, number.attr["DstT"].type = DType.INT64.value, DType.FLOAT.value
  return graph.SerializeToString()


@pytest.mark.parametrize("outputs", ["number", ["number"], {"n": "number"}])
def test_the_advice_for_a_frozen_graph_is_code_that_runs(outputs):
  graph = _hashed_text()
  with pytest.raises(UnsupportedOpError, match="StringToHashBucketFast") as e:
    convert(graph, inputs=["text"], outputs=outputs)
  advice = str(e.value).splitlines()[-1].strip()
  assert advice == f"graftax.convert.convert(graph, outputs={outputs!r}, inputs=['hash'])"
  fn, _ = eval(advice, {"graftax": graftax, "graph": graph})
  (number,) = jax.tree.leaves(fn({}, np.array([3]))[0])
  np.testing.assert_array_equal(number, [3.0])


def test_a_message_of_our_own_schema_converts():
  graph = schema.GraphDef()
  graph.node.add(name="x", op="Placeholder").attr["dtype"].type = DType.FLOAT.value
  graph.node.add(name="y", op="Neg", input=["x"]).attr["T"].type = DType.FLOAT.value
  fn, _ = convert(graph, inputs="x", outputs="y")
  assert fn({}, np.float32(2.0))[0] == -2.0
