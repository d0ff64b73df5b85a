"""Scripts of code points on the host, against TensorFlow's kernel."""

import tensorflow as tf

from graftax.convert.host_ops.strings_test import check


def test_scripts_of_all_code_points():
  points = tf.range(-2, 0x110002)
  check(tf.strings.unicode_script, points)
