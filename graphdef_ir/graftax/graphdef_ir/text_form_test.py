import pytest

from graftax.graphdef_ir import ParseError, parse_graph, schema
from graftax.graphdef_ir.text_form import is_text_form, parse_text_form

_TEXT = (
  b'node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }\nversions { producer: 27 }'
)


def test_a_graph_in_text_form_is_the_serialized_one():
  message = parse_text_form(schema.GraphDef, _TEXT)
  assert parse_graph(_TEXT) == parse_graph(message.SerializeToString())


@pytest.mark.parametrize("before", [b"", b"\n \t", b"# a comment\n#another\n", b"\r\n"])
def test_comments_and_spaces_may_come_first(before):
  assert parse_graph(before + _TEXT).nodes[0].name == "x"


@pytest.mark.parametrize("name", ["node{x", "node", "library", "\n", "a" * 10, "versions<" * 5])
@pytest.mark.parametrize("op", ["", "NoOp", "X" * 28])
def test_serialized_graphs_are_not_taken_for_text(name, op):
  # The length of the first node may be that of a space or a line break.
  data = schema.GraphDef(node=[schema.NodeDef(name=name, op=op)]).SerializeToString()
  assert not is_text_form(schema.GraphDef, data)


@pytest.mark.parametrize(
  "text",
  [
    b"node { name: ",
    b"node { name: 5 }",
    b"node { attr { key: 'k' value { i: 99999999999999999999 } } }",
    b"node { name: '\\xff' }",
    b"node { name: '\xff' }",
    b"node: 3",
    b"node {" * 500,
    b"library { unknown {" * 3000,
  ],
)
def test_damaged_text_is_an_error(text):
  with pytest.raises(ParseError, match="text form"):
    parse_graph(text)


def test_fields_that_we_never_read_are_skipped():
  text = b'node { name: "x" op: "NoOp" experimental_thing { original { a: 1 } } }'
  assert [node.name for node in parse_graph(text).nodes] == ["x"]
