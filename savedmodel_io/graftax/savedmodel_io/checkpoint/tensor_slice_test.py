import pytest

from graftax.graphdef_ir import schema
from graftax.savedmodel_io.checkpoint.tensor_slice import TensorSlice, parse_slice_spec, slice_key


def test_a_slice_spec_names_full_shape_and_part():
  assert parse_slice_spec("4 3 2,2:-") == ((4, 3), TensorSlice(((2, 2), (0, None))))


def test_an_empty_spec_means_the_whole_tensor():
  assert parse_slice_spec("") is None


@pytest.mark.parametrize("spec", ["4", "4 3 0,2", "4 0,5", "4 -1,2", "x 0,1", "4 0;2", "4 3,-1"])
def test_a_damaged_spec_is_quoted_in_the_error(spec):
  with pytest.raises(ValueError, match=spec.split(" ")[0]):
    parse_slice_spec(spec)


def test_bounds_leave_no_room_for_a_slice_outside_the_tensor():
  assert TensorSlice(((1, 2), (0, None))).bounds((3, 7)) == ((1, 3), (0, 7))
  with pytest.raises(ValueError, match=r"leaves shape \(2, 7\)"):
    TensorSlice(((1, 2), (0, None))).bounds((2, 7))


def test_a_message_without_length_means_the_whole_dimension():
  proto = schema.TensorSliceProto()
  proto.extent.add(start=1, length=0)
  proto.extent.add()
  assert TensorSlice.from_proto(proto) == TensorSlice(((1, 0), (0, None)))


def test_a_slice_prints_as_tensorflow_writes_it():
  assert str(TensorSlice(((2, 2), (0, None)))) == "2,2:-"


def test_the_key_of_a_slice_is_its_ordered_code():
  # 0; "v" and terminator; 2 dimensions; (0, 2); (0, whole)
  assert slice_key("v", TensorSlice(((0, 2), (0, None)))) == bytes.fromhex("0076000101028082807f")
