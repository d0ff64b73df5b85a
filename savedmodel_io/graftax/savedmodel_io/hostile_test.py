"""SavedModels whose records are valid one by one, and ask for far more than their size: each is a typed error."""

from collections.abc import Callable, Iterable

import pytest

from graftax.graphdef_ir import GraftaxError, LimitExceededError, Limits, schema
from graftax.savedmodel_io import load
from graftax.savedmodel_io.checkpoint.varint import encode_varint
from graftax.savedmodel_io.errors import DamagedSavedModelError, UnknownSignatureError, UnknownTagsError
from graftax.savedmodel_io.objects.object_graph import read_object_graph
from graftax.savedmodel_io.objects.trackable_graph import match_checkpoint
from graftax.testing.resource_limits import within_limits

_MANY = 300_000


def _field(number: int, data: bytes = b"") -> bytes:
  return encode_varint(number << 3 | 2) + encode_varint(len(data)) + data


def _model(*, graph: bytes = b"", objects: bytes = b"", info: bytes = b"", others: bytes = b"") -> bytes:
  meta_graph = _field(1, info) + _field(2, graph) + _field(7, objects) + others
  return b"\x08\x01" + _field(2, meta_graph)


def _numbered(number: int) -> bytes:
  """Returns entries of a map, whose keys must differ."""
  return b"".join(_field(number, _field(1, b"%d" % i)) for i in range(_MANY))


def _chain_of_long_names() -> bytes:
  """Objects in each other, by names of 1000 letters, and at the end an object with many others."""
  chain = [_field(1, _field(1, b"\x08" + encode_varint(i + 1) + _field(2, b"%04d" % i * 250))) for i in range(500)]
  children = b"".join(_field(1, b"\x08" + encode_varint(501 + i) + _field(2, b"%d" % i)) for i in range(20_000))
  return b"".join(chain) + _field(1, children) + _field(1) * 20_000


_HOSTILE: dict[str, tuple[Callable[[], bytes], type[GraftaxError], str]] = {
  "nodes": (lambda: _model(graph=_field(1) * _MANY), LimitExceededError, "a model with 300000 nodes"),
  "functions": (lambda: _model(graph=_field(2, _field(1) * _MANY)), LimitExceededError, "300000 functions"),
  "nodes_in_functions": (
    lambda: _model(graph=_field(2, _field(1, _field(3) * 1000) * 300)),
    LimitExceededError,
    "300000 nodes in functions",
  ),
  "objects": (lambda: _model(objects=_field(1) * _MANY), LimitExceededError, "300000 saved objects"),
  "attributes": (
    lambda: _model(objects=_field(1, _field(1) * 7 * _MANY)),
    LimitExceededError,
    "2100000 attributes of saved objects",
  ),
  "slots": (lambda: _model(objects=_field(1, _field(3) * 7 * _MANY)), LimitExceededError, "2100000 attributes"),
  "concrete_functions": (lambda: _model(objects=_numbered(2)), LimitExceededError, "300000 concrete functions"),
  "signatures": (lambda: _model(others=_numbered(5)), LimitExceededError, "300000 signatures"),
  "collections": (lambda: _model(others=_numbered(4)), LimitExceededError, "300000 collections"),
  "assets": (lambda: _model(others=_field(6) * _MANY), LimitExceededError, "300000 assets"),
  "ops": (lambda: _model(info=_field(2, _field(1) * _MANY)), LimitExceededError, "300000 ops"),
  "tags": (lambda: _model(info=_field(4) * _MANY), LimitExceededError, "300000 tags"),
  "aliases": (lambda: _model(info=_numbered(8)), LimitExceededError, "300000 aliases"),
  "meta_graphs": (lambda: b"\x08\x01" + _field(2) * _MANY, LimitExceededError, "300000 MetaGraphs"),
  "some_meta_graphs": (lambda: b"\x08\x01" + _field(2) * 1000, UnknownTagsError, "0 of 1000 MetaGraphs match"),
  "chain_of_long_names": (
    lambda: _model(objects=_chain_of_long_names()),
    LimitExceededError,
    "20501 saved objects, whose paths have",
  ),
  "object_beyond_the_end": (
    lambda: _model(objects=_field(1, _field(1, b"\x08\x05"))),
    DamagedSavedModelError,
    "beyond the 1 there are",
  ),
  "nothing": (lambda: _model(), UnknownSignatureError, "no signature or function 'serving_default'"),
}


@pytest.mark.parametrize("case", _HOSTILE)
def test_a_hostile_model_is_a_typed_error(case, tmp_path):
  make, error, message = _HOSTILE[case]
  (tmp_path / "saved_model.pb").write_bytes(make())
  with within_limits(), pytest.raises(error, match=message) as caught:
    load(tmp_path).convert()
  assert str(caught.value).startswith(str(tmp_path))
  assert len(str(caught.value)) < 1000


def test_what_a_limit_refuses_is_read_with_a_higher_limit(tmp_path):
  (tmp_path / "saved_model.pb").write_bytes(_model(objects=_field(1) * 10))
  with pytest.raises(LimitExceededError) as caught:
    load(tmp_path, limits=Limits(unpacked_bytes=1000))
  assert caught.value.limit == "unpacked_bytes"
  assert len(load(tmp_path, limits=Limits(unpacked_bytes=1 << 20)).objects.nodes) == 10


def _text(nested: str, levels: int) -> str:
  opening, _, closing = nested.partition("|")
  return opening * levels + closing * levels


_IN_OUTPUTS = (
  "meta_graphs {{ object_graph_def {{ concrete_functions {{ key: 'f' value {{ output_signature {{ {} }} }} }} }} }}"
)
_HOSTILE_TEXTS = {
  "deep_lists": (_IN_OUTPUTS.format(_text("list_value { values {| } }", 60)), "max depth|MaxDepth|Error parsing"),
  "deeper_lists": (_IN_OUTPUTS.format(_text("list_value { values {| } }", 5000)), "recursion"),
  "deep_unknown_fields": ("meta_graphs {" + _text("unknown {|}", 50_000) + "}", "recursion"),
  "long_number": ("saved_model_schema_version: " + "9" * 1_000_000, "9999"),
  "text_without_end": ("meta_graphs { meta_info_def { tags: '" + "\\x41" * 100_000, "."),
}


@pytest.mark.parametrize("case", _HOSTILE_TEXTS)
def test_a_hostile_text_is_a_typed_error(case, tmp_path):
  text, message = _HOSTILE_TEXTS[case]
  (tmp_path / "saved_model.pbtxt").write_text(text)
  with within_limits(), pytest.raises(DamagedSavedModelError, match=f"saved_model.pbtxt: .*({message})"):
    load(tmp_path)


def test_saved_objects_that_are_inside_themselves_are_read():
  node = schema.SavedObject(
    children=[schema.TrackableObjectGraph.TrackableObject.ObjectReference(node_id=0, local_name="self")]
  )
  objects = read_object_graph(schema.SavedObjectGraph(nodes=[node]))
  assert objects.find("self.self.self").id == 0


def _objects(kind: type, nodes: Iterable[list[tuple[str, int]]]):
  return [
    kind(
      children=[
        schema.TrackableObjectGraph.TrackableObject.ObjectReference(node_id=child, local_name=name)
        for name, child in children
      ]
    )
    for children in nodes
  ]


def test_matching_takes_linear_time_if_all_objects_match_one():
  num = 20_000
  saved = _objects(schema.SavedObject, [[("a", i + 1)] if i % 900 else [("a", i + 1)] for i in range(900)] + [[]])
  wide = _objects(schema.SavedObject, [[(f"x{i}", i + 1) for i in range(num)], *[[] for _ in range(num)]])
  one = schema.TrackableObjectGraph.TrackableObject(
    children=[
      *(
        schema.TrackableObjectGraph.TrackableObject.ObjectReference(node_id=0, local_name=name)
        for name in ["a", *(f"x{i}" for i in range(num))]
      ),
    ]
  )
  for i in range(num):
    one.attributes.add(name=f"n{i}", checkpoint_key=f"k{i}")
  trackable = schema.TrackableObjectGraph(nodes=[one])
  for nodes in (saved, wide):
    objects = read_object_graph(schema.SavedObjectGraph(nodes=nodes))
    with within_limits(seconds=5):
      matched = match_checkpoint(objects, trackable)
    assert len(matched) == len(nodes)
    assert matched[1]["n5"] == "k5"
