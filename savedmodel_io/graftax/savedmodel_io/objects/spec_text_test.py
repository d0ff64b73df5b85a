import collections

from graftax.graphdef_ir import DType, PartialShape, TensorSpec
from graftax.savedmodel_io.objects.spec_text import structure_text
from graftax.savedmodel_io.objects.type_specs import SparseTensorSpec

_X = TensorSpec(PartialShape((None, 3)), DType.FLOAT, "x")
_Pair = collections.namedtuple("_Pair", "left right")


def test_structures_are_written_with_types_in_place_of_specs():
  structure = {
    "a": (_X,),
    "b": [_X, True],
    "c": _Pair(_X, None),
    "d": SparseTensorSpec(PartialShape((2,)), DType.INT32),
  }
  assert structure_text(structure) == (
    "{a: (float32[?, 3],), b: [float32[?, 3], True], c: _Pair(left=float32[?, 3], right=None), "
    "d: SparseTensor<int32>[2]}"
  )
