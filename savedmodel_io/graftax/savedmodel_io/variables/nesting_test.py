from pathlib import Path

import jax
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftax.savedmodel_io import load, nest, unnest
from graftax.savedmodel_io.errors import ParameterNameError

_DATA = Path(__file__).parents[1] / "testdata"
_NAMES = st.text(alphabet="ab/.", min_size=1, max_size=8).filter(lambda name: all(name.split("/")))


@given(st.dictionaries(_NAMES, st.integers()))
def test_unnest_takes_nest_back(params):
  assert unnest(nest(params)) == params


@pytest.mark.parametrize("name", ["2026_11_21/keras_export", "2026_11_21/module", "2026_11_21/tf1_partitioned"])
def test_parameters_of_models_come_back_bit_for_bit(name):
  variables = dict(load(_DATA / name, "serve").variables)
  back = unnest(nest(variables))
  assert set(back) == set(variables)
  assert all(back[key] is value for key, value in variables.items())


def test_the_tree_is_a_pytree_of_the_same_leaves():
  tree = nest({"b/w": 1, "a": 2, "b/c/w": 3})
  assert tree == {"b": {"w": 1, "c": {"w": 3}}, "a": 2}
  assert sorted(jax.tree.leaves(tree)) == [1, 2, 3]


def test_names_that_begin_others_keep_their_value():
  params = {"kernel/Adam": 1, "kernel": 2, "kernel/Adam/x/y": 3}
  assert nest(params) == {"kernel": {"Adam": {"": 1, "x": {"y": 3}}, "": 2}}
  assert unnest(nest(params)) == params


@pytest.mark.parametrize("name", ["", "a/", "/a", "a//b"])
def test_names_without_a_way_back_raise(name):
  with pytest.raises(ParameterNameError, match=f"{name!r} cannot be nested"):
    nest({name: 1})


@pytest.mark.parametrize(
  ("tree", "message"),
  [
    ({"a": {1: 2}}, "key 1 below 'a'"),
    ({"a": {"b/c": 2}}, "key 'b/c' below 'a'"),
    ({"a": {"": {"": 1}, "b": 2}, "": 1}, "or its root, have the name ''"),
  ],
)
def test_trees_that_are_not_of_parameters_raise(tree, message):
  with pytest.raises(ParameterNameError, match=message):
    unnest(tree)
