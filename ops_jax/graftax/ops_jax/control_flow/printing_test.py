"""Printed text against TensorFlow's, and when it is printed."""

import logging

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from graftax.ops_jax import UnsupportedAttrError
from graftax.ops_jax.control_flow import printing
from graftax.testing.raw_ops import check_raw_op

_VALUES = [
  np.arange(10),
  np.arange(12).reshape(3, 4),
  np.arange(100).reshape(10, 10),
  np.arange(24).reshape(2, 3, 4),
  np.float32(np.pi),
  np.float64(np.pi),
  np.float64(0.1),
  np.float16(0.1),
  np.array([1.0, 2.5, 1e-8, 1e10, 123456.789, np.nan, np.inf], np.float32),
  np.array([1.5, 2.0], ml_dtypes.bfloat16),
  np.array([True, False]),
  np.array([b"ab", b"c"], object),
  np.array(b"ab", object),
  np.zeros(0, np.float32),
  np.array([-1], np.int8),
  np.array([b"\n\t\r \x01\x7f \"'\\", b"\xff\xc3\xa9"], object),
]


@pytest.mark.parametrize("value", _VALUES, ids=repr)
@pytest.mark.parametrize("summarize", [3, 1, -1])
def test_text_matches_tensorflow(value, summarize):
  attrs = {"template": "a {} b {}.", "placeholder": "{}", "summarize": summarize}
  check_raw_op("StringFormat", [[value, np.int32(7)]], attrs, static=("inputs",))


def test_text_of_arrays_outside_of_jit_is_known():
  text = printing.string_format([jnp.arange(3), np.array(b"a", object)], template="{} of {}", placeholder="{}")
  assert text == b'[0 1 2] of "a"'


def test_text_with_traced_values_is_printed_when_the_program_runs(capfd):
  @jax.jit
  def run(x):
    text = printing.string_format([x, np.int32(3)], template="x={} n={}", placeholder="{}")
    printing.print_v2(text, output_stream="stdout", end="!\n")
    return printing.print_(x, [x, np.array([b"text"], object)], message="here {}")

  np.testing.assert_array_equal(run(jnp.array([1.5, 2.0])), [1.5, 2.0])
  jax.effects_barrier()
  captured = capfd.readouterr()
  assert captured.out == "x=[1.5 2] n=3!\n"
  assert 'here {}[[1.5 2]][["text"]]' in captured.err


def test_printing_leaves_derivatives_and_batches_alone():
  def run(x):
    printing.print_v2(printing.string_format([x], template="{}", placeholder="{}"))
    return x * x

  assert jax.grad(run)(3.0) == 6
  np.testing.assert_array_equal(jax.vmap(run)(jnp.arange(3.0)), [0, 1, 4])
  jax.effects_barrier()


def test_text_can_go_to_the_log(caplog):
  with caplog.at_level(logging.INFO, logger="graftax.print"):
    printing.print_v2(np.array(b"known", object), output_stream="log(info)")
    jax.effects_barrier()
  assert caplog.messages == ["known"]


def test_a_graph_may_not_write_to_files():
  with pytest.raises(UnsupportedAttrError, match="file://"):
    printing.print_v2(np.array(b"known", object), output_stream="file:///somewhere")
