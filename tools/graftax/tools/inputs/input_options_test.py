import jax
import numpy as np
import pytest

from graftax.tools.errors import InputOptionError, ShapeOptionError
from graftax.tools.inputs.input_options import arguments_of


def _predict(params, images, scale=1.0, *, training=False):
  return params, images, scale, training


def test_symbols_of_one_name_are_one_size():
  (x, y), _ = arguments_of(lambda x, y: x, ["x=float32[batch,3]", "y=int32[batch]"], has_params=False)
  assert x.shape[0] == y.shape[0] and x.shape[1] == 3
  assert (x.dtype, y.dtype) == (np.float32, np.int32)


def test_options_come_in_any_order_and_defaults_stay():
  args, kwargs = arguments_of(_predict, ["training=bool[]", "images=[2,3]"], has_params=True)
  assert args == (jax.ShapeDtypeStruct((2, 3), np.float32),)
  assert kwargs == {"training": jax.ShapeDtypeStruct((), np.bool_)}


def test_an_argument_behind_a_default_is_passed_by_name():
  args, kwargs = arguments_of(lambda x, a=1, b=2: x, ["x=[]", "b=int32[]"], has_params=False)
  assert len(args) == 1 and list(kwargs) == ["b"]


def test_constraints_hold_for_symbols():
  (x,), _ = arguments_of(lambda x: x, ["x=[n]"], ["n>=4"], has_params=False)
  assert x.shape[0] >= 4


@pytest.mark.parametrize(
  ("inputs", "message"),
  [
    ([], r"\['images'\] are not known; add --input 'images=float32"),
    (["images"], "expected NAME=DTYPE"),
    (["images=[2]", "images=[3]"], "given twice"),
    (["images=[2]", "labels=[2]"], r"'labels'.*arguments are \['images', 'scale', 'training'\]"),
    (["images=floaty[2]"], "no dtype 'floaty'"),
    (["images=[2,]x"], "expected NAME=DTYPE"),
    (["images=[None,28]"], "open need names"),
    (["images=[?,28]"], "open need names"),
    (["images=[-1,28]"], "a size is -1; sizes that are open need names"),
    (["images=[a b]"], r"'images=\[a b\]'"),
    (["images=float64[2]"], "JAX_ENABLE_X64"),
  ],
)
def test_options_that_do_not_fit_are_errors(inputs, message):
  with pytest.raises(InputOptionError, match=message):
    arguments_of(_predict, inputs, has_params=True)


def test_a_malformed_constraint_is_an_error():
  with pytest.raises(ShapeOptionError, match="--constraint"):
    arguments_of(_predict, ["images=[n]"], ["n is large"], has_params=True)
