"""Tests of the attributes of ops: each is returned in one kind, and those of another kind are an error."""

import pickle

import numpy as np
import pytest

from graftax.xla_call_module import ir

ATTRS = ir.Attributes(
  flag=True,
  number=3,
  ratio=0.5,
  name="f",
  sizes=(2, 3),
  axes=np.array([[0, 1]], np.int64),
  padding=np.array([[1, 2], [3, 4]], np.int64),
  empty=np.array([]),
  numbers=ir.Attributes(axis=1),
  each=(ir.Attributes(a=1), ir.Attributes()),
)


@pytest.mark.parametrize(
  ("found", "expected"),
  [
    (ATTRS.boolean("flag"), True),
    (ATTRS.boolean("missing", False), False),
    (ATTRS.integer("number"), 3),
    (ATTRS.integer("missing", 0), 0),
    (ATTRS.real("ratio"), 0.5),
    (ATTRS.text("name"), "f"),
    (ATTRS.texts("missing", ()), ()),
    (ATTRS.integers("sizes"), (2, 3)),
    (ATTRS.integers("axes"), (0, 1)),
    (ATTRS.integers("empty"), ()),
    (ATTRS.integers("missing", (1, 1)), (1, 1)),
    (ATTRS.pairs("padding", 2), ((1, 2), (3, 4))),
    (ATTRS.pairs("missing", 2), ((0, 0), (0, 0))),
    (ATTRS.fields("numbers").integer("axis"), 1),
    (ATTRS.all_fields("each"), ({"a": 1}, {})),
    (ATTRS.all_fields("missing", 1), ({},)),
  ],
)
def test_an_attribute_is_returned_in_its_kind(found, expected):
  assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize(
  "read",
  [
    lambda: ATTRS.boolean("number"),
    lambda: ATTRS.integer("sizes"),
    lambda: ATTRS.text("number"),
    lambda: ATTRS.integers("name"),
    lambda: ATTRS.integers("each"),
    lambda: ATTRS.pairs("sizes", 1),
    lambda: ATTRS.fields("sizes"),
    lambda: ATTRS.maybe_array("sizes"),
    lambda: ATTRS.function("number"),
  ],
)
def test_an_attribute_of_another_kind_is_named(read):
  with pytest.raises(TypeError, match=r"attribute '(number|sizes|name|each|axes)' is .*; expected "):
    read()


def test_an_attribute_without_default_has_to_be_there():
  with pytest.raises(KeyError, match="missing"):
    ATTRS.integers("missing")


def test_attributes_are_pickled_as_they_are():
  copy = pickle.loads(pickle.dumps(ATTRS.fields("numbers")))
  assert copy == ATTRS["numbers"] and type(copy) is ir.Attributes
