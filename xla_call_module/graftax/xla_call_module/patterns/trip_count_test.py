import jax
import numpy as np
import pytest

from graftax.xla_call_module import Module, embed, lift

_LOOP = """module {{ func.func public @main(%x: tensor<i32>) -> (tensor<i8>, tensor<i32>) {{
  %start = stablehlo.constant dense<{start}> : tensor<i8>
  %step = stablehlo.constant dense<{step}> : tensor<i8>
  %limit = stablehlo.constant dense<{limit}> : tensor<i8>
  %r:2 = stablehlo.while(%i = %start, %n = %x) : tensor<i8>, tensor<i32> cond {{
    %p = stablehlo.compare {direction}, {compared} : (tensor<i8>, tensor<i8>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }} do {{
    %j = stablehlo.{update} : tensor<i8>
    %m = stablehlo.add %n, %x : tensor<i32>
    stablehlo.return %j, %m : tensor<i8>, tensor<i32>
  }}
  return %r#0, %r#1 : tensor<i8>, tensor<i32> }} }}"""


def _loop(direction: str, update: str, *, start=0, step=1, limit=0, compared="%i, %limit") -> Module:
  return Module.from_text(
    _LOOP.format(direction=direction, update=update, start=start, step=step, limit=limit, compared=compared)
  )


_UP, _UP_SWAPPED, _DOWN = "add %i, %step", "add %step, %i", "subtract %i, %step"
_CASES = {
  "up": _loop("LT", _UP, step=3, limit=10),
  "up to and including": _loop("LE", _UP, step=3, limit=9),
  "step first": _loop("LT", _UP_SWAPPED, step=4, limit=9),
  "down": _loop("GT", _DOWN, start=10, step=3),
  "down to and including": _loop("GE", _DOWN, start=9, step=3),
  "up by a negative step": _loop("GT", _UP, start=5, step=-2),
  "limit first": _loop("GT", _UP, limit=7, compared="%limit, %i"),
  "not once": _loop("LT", _UP, start=5, limit=5),
  "until it wraps": _loop("GT", _UP, start=120, limit=0),
  "until it wraps from below": _loop("LT", _DOWN, start=-120, limit=0),
  "negated": _loop("GT", "negate %i", start=3, limit=0),
  "its own distance": _loop("GT", "subtract %step, %i", start=3, step=2),
}


@pytest.mark.parametrize("name", list(_CASES))
def test_loop_runs_as_often_as_in_xla_and_its_length_is_known(name):
  lifted, x = lift(_CASES[name]), np.int32(1)
  assert "while[" not in str(jax.make_jaxpr(lifted)(x))
  for got, want in zip(lifted(x), embed(_CASES[name])(x), strict=True):
    np.testing.assert_array_equal(got, want, strict=True)


def test_loop_without_end_is_left_as_it_is():
  assert "while[" in str(jax.make_jaxpr(lift(_loop("LT", "add %i, %i", limit=1)))(np.int32(1)))
