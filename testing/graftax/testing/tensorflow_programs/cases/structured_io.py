"""Nested arguments and results."""

import collections

import numpy as np

from graftax.testing.harness.conversion_case import Collector, integers, normal

define = Collector("structured_io")

_ALL = ("value", "jit", "grad", "vmap", "batch", "export")
_X, _Y = normal(4, 3), normal(4, 3, seed=1)

Pair = collections.namedtuple("Pair", ["first", "second"])


@define({"b": _X, "a": _Y}, checks=_ALL)
def dict_in_dict_out(tf, d):
  return {"z": d["a"] - d["b"], "c": {"inner": d["a"] * 2.0}, "a": d["b"]}


@define(Pair(_X, _Y), checks=("value", "jit", "grad", "vmap"))
def named_tuples(tf, pair):
  return Pair(pair.second, pair.first * pair.second)


@define([_X, (_Y, [_X])], checks=_ALL)
def lists_and_tuples(tf, nested):
  return nested[0] + nested[1][0], [nested[1][1][0], (nested[0],)]


@define(_X, checks=("value", "jit", "grad"))
def none_in_results(tf, x):
  return {"loss": tf.reduce_sum(x), "aux": None, "x": (x, None)}


@define(_X, checks=_ALL)
def the_same_tensor_twice(tf, x):
  return x, x, tf.identity(x), [x]


@define(_X, _Y, checks=("value", "jit", "grad", "vmap"))
def defaults_and_python_values(tf):
  def f(x, y, scale=2.0, flip=False):
    return (y - x if flip else x - y) * scale

  return tf.function(f)


@define({"tokens": integers(4, 3), "mask": np.ones((4, 3), bool), "weights": _X}, checks=_ALL)
def mixed_dtypes(tf, batch):
  chosen = tf.where(batch["mask"] & (batch["tokens"] > 2), batch["weights"], 0.0)
  return {"chosen": chosen, "count": tf.math.count_nonzero(chosen, axis=1, dtype=tf.int32)}


@define(
  {"image": normal(2, 6, 6, 3), "tags": normal(2, 4)},
  checks=("value", "jit", "grad", "param_grad", "batch"),
  tolerance=(1e-4, 1e-5),
)
def keras_with_named_inputs_and_outputs(tf):
  layers = tf.keras.layers
  image, tags = tf.keras.Input((6, 6, 3), name="image"), tf.keras.Input((4,), name="tags")
  x = layers.Concatenate()([layers.Flatten()(layers.Conv2D(2, 3)(image)), tags])
  model = tf.keras.Model({"image": image, "tags": tags}, {"a": layers.Dense(2)(x), "b": layers.Dense(1)(x)})
  return tf.function(lambda inputs: model(inputs))


@define(_X, integers(4), checks=("value", "jit"))
def no_floats_out(tf, x, i):
  return tf.cast(x > 0.0, tf.uint8), i // 3, tf.argsort(x, axis=1), tf.shape(x), tf.size(i)
