import jax
import pytest

from graftax.graphdef_ir import DType, PartialShape, TensorSpec
from graftax.tools.errors import ExportError, ShapeOptionError
from graftax.tools.inputs.shape_options import input_shapes

_SPECS = {
  "image": TensorSpec(PartialShape((None, None, None, 3)), DType.FLOAT),
  "size": TensorSpec(PartialShape((None, 2)), DType.INT64),
}


def _texts(**options):
  options = {"batch": "symbolic", "shapes": (), **options}
  return {name: tuple(map(str, shape.shape)) for name, shape in input_shapes(_SPECS, **options).items()}


def test_open_first_dimensions_are_one_symbol_and_others_each_their_own():
  assert _texts() == {"image": ("batch", "image_1", "image_2", "3"), "size": ("batch", "2")}
  shapes = input_shapes(_SPECS, batch="symbolic", shapes=())
  assert shapes["image"].shape[0] == shapes["size"].shape[0]


def test_a_number_takes_the_place_of_the_batch():
  assert _texts(batch="8") == {"image": ("8", "image_1", "image_2", "3"), "size": ("8", "2")}


def test_given_sizes_and_names_take_the_place_of_open_ones():
  assert _texts(shapes=["image=?,224,w,3"])["image"] == ("batch", "224", "w", "3")


def test_constraints_hold_for_named_sizes():
  shapes = input_shapes(_SPECS, batch="symbolic", shapes=["image=?,h,w,3"], constraints=["h>=2", "w==2*h"])
  _, height, width, _ = shapes["image"].shape
  assert height >= 2 and width == 2 * height


def test_dtypes_are_those_of_jax():
  assert input_shapes(_SPECS, batch="1", shapes=())["size"].dtype == jax.dtypes.canonicalize_dtype("int64")


@pytest.mark.parametrize(
  ("options", "message"),
  [
    ({"batch": "many"}, "--batch 'many'"),
    ({"batch": "-1"}, "--batch '-1'"),
    ({"batch": "0"}, "--batch '0': expected a number from 1"),
    ({"shapes": ["image=1,0,w,3"]}, "at least 1"),
    ({"constraints": ["image_1 > > 2"]}, "expected conditions such as"),
    (
      {"constraints": ["width>=2"]},
      r"--constraint 'width>=2': no input has the open size 'width'; they have \['batch'",
    ),
    ({"shapes": ["image"]}, "expected NAME="),
    ({"shapes": ["image=1,2*3,4,3"]}, "expected NAME="),
    ({"shapes": ["picture=1,2,3,3"]}, r"no input 'picture'; the signature has \['image', 'size'\]"),
    ({"shapes": ["image=1,2,3,4"]}, r"does not fit the signature, which takes float32\[\?, \?, \?, 3\]"),
    ({"shapes": ["size=1,2,3"]}, "does not fit"),
  ],
)
def test_what_does_not_fit_raises(options, message):
  with pytest.raises(ShapeOptionError, match=message):
    _texts(**options)


def test_an_input_of_unknown_rank_needs_a_shape():
  specs = {"x": TensorSpec(PartialShape(None), DType.FLOAT)}
  with pytest.raises(ShapeOptionError, match="'x' has unknown rank"):
    input_shapes(specs, batch="symbolic", shapes=())
  assert str(input_shapes(specs, batch="symbolic", shapes=["x=?,3"])["x"].shape) == "(batch, 3)"


def test_strings_cannot_be_exported():
  specs = {"text": TensorSpec(PartialShape((None,)), DType.STRING)}
  with pytest.raises(ExportError, match="'text' takes strings"):
    input_shapes(specs, batch="symbolic", shapes=())
