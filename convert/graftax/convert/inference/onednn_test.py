import math
import threading

import jax
import jax.numpy as jnp
import pytest

from graftax.convert.inference import onednn


@pytest.mark.skipif(not onednn.has_onednn(), reason="this jaxlib has no oneDNN for this processor")
def test_programs_for_inference_leave_to_ynnpack_what_it_computes_faster():
  kernel = jnp.ones((8, 8, 3, 3))

  def convolution(x):
    return jax.lax.conv(x, kernel, (1, 1), "SAME")

  def ynnpack(program):
    options = onednn.onednn_options(jax.make_jaxpr(program)(x))
    assert options.pop("xla_cpu_experimental_onednn_custom_call") == "True"
    (value,) = options.values()
    return value

  x = jnp.ones((1, 8, 8, 8))
  assert ynnpack(lambda x: convolution(convolution(x))) == ""
  assert ynnpack(convolution) == ynnpack(lambda x: x @ x) == "LIBRARY_FUSION_TYPE_REDUCE"
  steps = jax.jit(lambda x: jax.lax.fori_loop(0, 3, lambda _, x: convolution(x), x))
  assert ynnpack(steps) == "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT,LIBRARY_FUSION_TYPE_REDUCE"


@pytest.mark.parametrize(
  ("function", "few"),
  [
    (lambda x: x[:8] @ x, True),
    (lambda x: jax.jit(lambda x: x[:4] @ x)(x), True),
    (lambda x: jax.lax.dot_general(x[:4], x, (((1,), (1,)), ((), ()))), True),
    (lambda x: jnp.einsum("bhqd,bhkd->bhqk", x.reshape(4, 64, 1, 16), x.reshape(4, 64, 1, 16)), True),
    (lambda x: x[:9] @ x, False),
    (lambda x: x[:4].astype(jnp.bfloat16) @ x.astype(jnp.bfloat16), False),
    (lambda x: x @ x[:, :8], False),
    (lambda x: jnp.broadcast_to(x[:1, :1], (1, 1024)) @ jnp.broadcast_to(x[:1, :1], (1024, 4096)), False),
    (lambda x: x[:4] @ (x @ x), False),
    (lambda x: x + x, False),
    (lambda x: jax.lax.fori_loop(0, 3, lambda _, y: y @ x, x[:4]), False),
    (lambda x: jax.lax.conv(x[None, None, :8, :8] * jnp.sum(x[:1] @ x), jnp.ones((1, 1, 3, 3)), (1, 1), "SAME"), False),
  ],
)
def test_programs_whose_products_have_few_rows(function, few):
  assert onednn.has_few_rows(jax.make_jaxpr(function)(jnp.ones((64, 64)))) == few


def test_the_cache_is_off_until_the_last_thread_is_done():
  name = "jax_persistent_cache_min_compile_time_secs"
  before = getattr(jax.config, name)
  assert before < math.inf
  inside, leave = threading.Event(), threading.Event()

  def compile_slowly():
    with onednn.without_compilation_cache():
      inside.set()
      leave.wait(10)

  thread = threading.Thread(target=compile_slowly)
  thread.start()
  assert inside.wait(10)
  with pytest.raises(ZeroDivisionError), onednn.without_compilation_cache():
    _ = 1 / 0
  assert getattr(jax.config, name) == math.inf
  leave.set()
  thread.join()
  assert getattr(jax.config, name) == before
