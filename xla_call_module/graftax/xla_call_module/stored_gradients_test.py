"""Gradients that are made once, by the first thread that asks, and what of them a pickle has."""

import copy
import pickle
import threading
import time

import jax
import jax.numpy as jnp
import pytest

from graftax.xla_call_module import errors
from graftax.xla_call_module.stored_gradients import (
  NUM_STORED_ORDERS,
  LiveGradient,
  NoGradient,
  StoredGradient,
  fewer_orders,
)


def _read(made, number):
  time.sleep(0.05)  # so that the others ask meanwhile
  made.append(number)
  return [number]


def _read_order(exported, order):
  return order


def test_a_gradient_is_made_once_by_many_threads():
  made: list[int] = []
  gradient = StoredGradient(_read, made, 3)
  assert made == []
  barrier, found = threading.Barrier(8), []

  def ask():
    barrier.wait()
    found.append(gradient())

  threads = [threading.Thread(target=ask) for _ in range(8)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert made == [3] and len(found) == 8
  assert all(result is found[0] for result in found)
  assert copy.deepcopy(gradient) is gradient


def test_a_gradient_that_was_not_stored_says_why_also_after_a_pickle():
  gradient = pickle.loads(pickle.dumps(NoGradient(fewer_orders("pickled"))))
  with pytest.raises(errors.DerivativeError, match=f"a pickled module .* has {NUM_STORED_ORDERS} orders"):
    gradient()


def test_a_function_that_jax_cannot_differentiate_says_so_here_and_in_a_pickle():
  spec = jax.ShapeDtypeStruct((), jnp.float32)
  exported = jax.export.export(jax.jit(jax.lax.sin))(spec)
  blob = exported.serialize(vjp_order=0)
  gradient = LiveGradient(_read_order, jax.export.deserialize(blob), 0)
  for found in (gradient, pickle.loads(pickle.dumps(gradient))):
    with pytest.raises(errors.DerivativeError, match="Pass gradient='primal'"):
      found()


def test_a_live_function_has_any_order_and_a_pickle_of_it_two():
  exported = jax.export.export(jax.jit(jax.lax.sin))(jax.ShapeDtypeStruct((), jnp.float32))
  assert LiveGradient(_read_order, exported, 2)() == 3
  assert pickle.loads(pickle.dumps(LiveGradient(_read_order, exported, 1)))() == 2
  with pytest.raises(errors.DerivativeError, match=f"has {NUM_STORED_ORDERS} orders of derivatives"):
    pickle.loads(pickle.dumps(LiveGradient(_read_order, exported, NUM_STORED_ORDERS)))()
