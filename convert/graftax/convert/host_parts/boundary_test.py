"""Where the work for the host ends, on programs written by hand. No TensorFlow."""

import dataclasses

import jax
import numpy as np
import pytest

from graftax.convert import UnavailableCapture, convert_program, convert_subgraph
from graftax.convert.host_parts.boundary import host_boundary
from graftax.convert.planning.preflight import preflight
from graftax.graphdef_ir import DType, Result, TensorRef
from graftax.ops_jax import UnsupportedOpError
from graftax.testing.graph_builders import const, function, node, program

_LOOKUP = {"Tin": DType.STRING, "Tout": DType.INT64}
_TABLE = UnavailableCapture("table 'words' has string keys")


def _vocabulary(*more, results=("rows",)):
  """What `tf.lookup.StaticVocabularyTable` makes of text, and rows of a matrix at these indices."""
  nodes = [
    const("unknown", np.int64(-1)),
    const("rows_of", np.arange(8, dtype=np.float32).reshape(4, 2)),
    const("axis", np.int32(0)),
    node("found", "LookupTableFindV2", "table", "text", "unknown", **_LOOKUP),
    node("hash", "StringToHashBucketFast", "text", num_buckets=2),
    node("size", "LookupTableSizeV2", "table"),
    node("bucket", "AddV2", "hash", "size", T=DType.INT64),
    node("is_word", "NotEqual", "found", "unknown", T=DType.INT64),
    node("index", "SelectV2", "is_word", "found", "bucket", T=DType.INT64),
    node("rows", "GatherV2", "rows_of", "index", "axis", Tparams=DType.FLOAT, Tindices=DType.INT64, Taxis=DType.INT32),
    *more,
  ]
  root = function("look_up", ["text", "*table"], nodes, results)
  parameters = (dataclasses.replace(root.parameters[0], dtype=DType.STRING), root.parameters[1])
  whole = program(dataclasses.replace(root, parameters=parameters), variables={"table": 0.0})
  return dataclasses.replace(whole, captures=(_TABLE,), variables={})


def _boundary(whole):
  return host_boundary(whole, preflight(whole).unsupported_ops)


def test_a_vocabulary_is_cut_off_after_the_index_is_put_together():
  whole = _vocabulary()
  assert _boundary(whole) == ("index",)
  fn, _ = convert_subgraph(whole, ["index"])
  np.testing.assert_array_equal(jax.jit(fn)({}, np.array([3, 0]))[0][0], [[6, 7], [0, 1]])


def test_a_tensor_that_is_wanted_itself_stays_an_input():
  whole = _vocabulary()
  root = whole.function
  also = dataclasses.replace(root, results=(*root.results, Result("r1", TensorRef("found"), DType.INT64)))
  assert set(_boundary(dataclasses.replace(whole, function=also))) >= {"found"}


def test_the_host_computes_nothing_but_indices_and_masks():
  # The sum of the rows is one tensor as the index is, and work for JAX.
  total = [const("axes", np.int32([0, 1])), node("total", "Sum", "rows", "axes", T=DType.FLOAT, Tidx=DType.INT32)]
  second = node("other", "StringToHashBucketFast", "text", num_buckets=4)
  more = node("more", "GatherV2", "rows_of", "other", "axis", Tparams=DType.FLOAT, Tindices=DType.INT64,
              Taxis=DType.INT32)  # fmt: skip
  both = node("both", "AddV2", "total", "more", T=DType.FLOAT)
  assert _boundary(_vocabulary(*total, second, more, both, results=["both"])) == ("other", "index")


def test_the_error_spells_the_call_that_converts_the_rest():
  with pytest.raises(UnsupportedOpError, match=r"convert_subgraph\(function, inputs=\['index'\]\)$"):
    convert_program(_vocabulary())
  named = dataclasses.replace(_vocabulary(), part_code="convert_subgraph(load('m').program('f')")
  with pytest.raises(
    UnsupportedOpError, match=r"  convert_subgraph\(load\('m'\).program\('f'\), inputs=\['index'\]\)$"
  ):
    convert_program(named)
