"""`TensorArray`s and loops that use them."""

from graftax.testing.harness.conversion_case import Collector, normal

define = Collector("tensor_array")

_ALL = ("value", "jit", "grad", "vmap")
_X = normal(4, 3)


@define(_X, checks=_ALL)
def written_in_a_loop(tf, x):
  array = tf.TensorArray(tf.float32, size=4)
  for i in tf.range(4):
    array = array.write(3 - i, x[i] ** 2)
  return array.stack()


@define(_X, checks=_ALL)
def growing(tf, x):
  array = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
  for i in tf.range(6):
    array = array.write(i, x[i % 4] * tf.cast(i, tf.float32))
  return array.stack(), array.size()


@define(_X, checks=_ALL)
def reading_what_was_written(tf, x):
  array = tf.TensorArray(tf.float32, size=5, clear_after_read=False, element_shape=[3])
  array = array.write(0, x[0])
  for i in tf.range(4):
    array = array.write(i + 1, tf.sin(array.read(i)) + x[i])
  return array.concat(), array.gather([1, 3])


@define(_X, checks=(*_ALL, "batch"))
def mapped(tf, x):
  return tf.map_fn(lambda row: tf.reduce_sum(row) * row, x)


@define(_X, normal(4, 3, seed=1), checks=_ALL)
def mapped_over_two(tf, x, y):
  return tf.map_fn(lambda ab: (ab[0] * ab[1], ab[0][0]), (x, y), fn_output_signature=(tf.float32, tf.float32))


@define(_X, checks=_ALL)
def folds(tf, x):
  return tf.foldl(lambda a, row: tf.sin(a + row), x), tf.foldr(lambda a, row: a * row + 1.0, x)


@define(_X, checks=_ALL)
def scans(tf):
  forward = lambda x: tf.scan(lambda a, row: tf.tanh(a + row), x)  # noqa: E731
  return lambda x: (forward(x), tf.scan(lambda a, row: a * row + 1.0, x, reverse=True))


@define(_X, checks=(*_ALL, "batch"))
def vectorized(tf, x):
  return tf.vectorized_map(lambda row: tf.tensordot(row, row, 1) * tf.exp(row), x)


@define(_X, checks=_ALL)
def split_and_unstack(tf, x):
  halves = tf.TensorArray(tf.float32, size=2).split(x, [2, 2])
  rows = tf.TensorArray(tf.float32, size=4).unstack(x)
  return halves.read(1) * 2.0, rows.read(2), rows.size()


@define(_X, checks=_ALL)
def two_arrays_in_nested_loops(tf, x):
  sums, products = tf.TensorArray(tf.float32, size=4), tf.TensorArray(tf.float32, size=4)
  for i in tf.range(4):
    total = tf.zeros([3])
    for j in tf.range(3):
      total += x[i] * tf.cast(j, tf.float32)
    sums = sums.write(i, total)
    products = products.write(i, total * x[0])
  return sums.stack() + products.stack()
