import copy
import pickle

import jax
import numpy as np

from graftax.convert import Variable, VariableSpec, split_trainable


def test_name_and_trainable_survive_pickle_copy_and_tree_map():
  variable = Variable(np.arange(3.0), "dense/kernel:0", trainable=False)
  copies = [
    pickle.loads(pickle.dumps(variable)),
    copy.deepcopy(variable),
    jax.tree.map(lambda leaf: leaf, [variable])[0],
    variable[:2],
  ]
  assert [(c.name, c.trainable) for c in copies] == [("dense/kernel:0", False)] * 4


def test_a_variable_whose_elements_share_memory_has_a_small_pickle():
  data = pickle.dumps(Variable(np.broadcast_to(np.float32(2), (1000, 1000)), "v:0"))
  assert len(data) < 1000
  np.testing.assert_array_equal(pickle.loads(data), np.full((1000, 1000), 2, np.float32))


def test_what_is_computed_from_it_is_a_plain_array():
  variable = Variable(np.arange(3.0, dtype=np.float32), "v:0")
  assert type(variable * 2) is np.ndarray
  assert isinstance(variable.sum(), np.float32)


def test_it_shares_memory_with_the_array_it_was_made_from():
  array = np.zeros(3)
  assert np.shares_memory(Variable(array, "v:0"), array)


def test_jax_takes_it_as_an_array():
  variable = Variable(np.arange(3.0, dtype=np.float32), "v:0")
  gradient = jax.grad(lambda params: (params["v"] ** 2).sum())({"v": variable})
  np.testing.assert_array_equal(gradient["v"], [0, 2, 4])


def test_updated_parameters_are_split_by_the_variables_of_the_function():
  variables = {name: VariableSpec(f"{name}:0", (), np.dtype(np.float32), name == "w") for name in ("w", "mean")}
  params = {"w": jax.numpy.ones(()), "mean": jax.numpy.zeros(())}
  assert split_trainable(params) == (params, {})
  trainable, rest = split_trainable(params, variables)
  assert (list(trainable), list(rest)) == (["w"], ["mean"])
