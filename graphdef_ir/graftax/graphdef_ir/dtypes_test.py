"""Element types: numbers, names and numpy counterparts."""

import ml_dtypes
import numpy as np
import pytest

from graftax.graphdef_ir import schema
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.errors import UnsupportedDTypeError

_WITHOUT_NUMPY = {DType.INVALID, DType.RESOURCE, DType.VARIANT}


def test_numbers_are_those_of_the_schema():
  assert {f"DT_{dtype.name}": dtype.value for dtype in DType} == {v.name: v.value for v in schema.DataType}


@pytest.mark.parametrize("dtype", [dtype for dtype in DType if dtype.base not in _WITHOUT_NUMPY])
def test_every_other_type_has_a_numpy_type(dtype: DType):
  assert isinstance(dtype.numpy, np.dtype)
  assert dtype.numpy == dtype.base.numpy


@pytest.mark.parametrize("dtype", sorted(_WITHOUT_NUMPY))
def test_resources_and_variants_have_no_numpy_type(dtype: DType):
  with pytest.raises(UnsupportedDTypeError, match=f"dtype '{dtype.tf_name}' has no numpy counterpart"):
    _ = dtype.numpy


def test_from_numpy_inverts_numpy_except_for_quantized_types():
  for dtype in DType:
    if not dtype.is_ref and dtype not in _WITHOUT_NUMPY and not dtype.name.startswith(("QINT", "QUINT")):
      assert DType.from_numpy(dtype.numpy) == dtype
  assert DType.from_numpy(DType.QINT8.numpy) == DType.INT8


def test_from_numpy_takes_what_np_dtype_takes():
  assert DType.from_numpy(float) == DType.DOUBLE
  assert DType.from_numpy(ml_dtypes.bfloat16) == DType.BFLOAT16
  assert DType.from_numpy(np.dtype(">i4")) == DType.INT32
  assert DType.from_numpy("U5") == DType.STRING
  assert DType.from_numpy(object) == DType.STRING


@pytest.mark.parametrize("numpy_dtype", ["datetime64[s]", "V4", np.longdouble, [("x", "i4")]])
def test_numpy_types_without_counterpart_raise(numpy_dtype: object):
  with pytest.raises(UnsupportedDTypeError, match=r"numpy dtype '.+' has no TensorFlow counterpart"):
    DType.from_numpy(numpy_dtype)


def test_names_are_tensorflows():
  assert [DType.FLOAT.tf_name, DType.HALF.tf_name, DType.DOUBLE_REF.tf_name] == ["float32", "float16", "float64_ref"]
  assert all(DType.from_name(dtype.tf_name) == dtype for dtype in DType)
  with pytest.raises(UnsupportedDTypeError, match="'float33' is unknown"):
    DType.from_name("float33")


def test_a_reference_knows_its_base():
  assert DType.INT4_REF.is_ref and DType.INT4_REF.base is DType.INT4
  assert not DType.INT4.is_ref and DType.INT4.base is DType.INT4


def test_text_is_readable():
  assert (str(DType.FLOAT), repr(DType.FLOAT)) == ("float32", "DType.FLOAT")
