"""Element types of tensors.

>>> DType.FLOAT.numpy, DType.BFLOAT16.tf_name, DType.from_numpy("int8")
(dtype('float32'), 'bfloat16', DType.INT8)
"""

import enum
from typing import Any

import ml_dtypes
import numpy as np

from graftax.graphdef_ir.errors import UnsupportedDTypeError

__all__ = ["DType"]

_REF_OFFSET = 100


class DType(enum.IntEnum):
  """An element type; the value is its number in GraphDefs. `FLOAT_REF` is the type of a TF1 variable of FLOAT."""

  INVALID = 0
  FLOAT = 1
  DOUBLE = 2
  INT32 = 3
  UINT8 = 4
  INT16 = 5
  INT8 = 6
  STRING = 7
  COMPLEX64 = 8
  INT64 = 9
  BOOL = 10
  QINT8 = 11
  QUINT8 = 12
  QINT32 = 13
  BFLOAT16 = 14
  QINT16 = 15
  QUINT16 = 16
  UINT16 = 17
  COMPLEX128 = 18
  HALF = 19
  RESOURCE = 20
  VARIANT = 21
  UINT32 = 22
  UINT64 = 23
  FLOAT8_E5M2 = 24
  FLOAT8_E4M3FN = 25
  FLOAT8_E4M3FNUZ = 26
  FLOAT8_E4M3B11FNUZ = 27
  FLOAT8_E5M2FNUZ = 28
  INT4 = 29
  UINT4 = 30
  INT2 = 31
  UINT2 = 32
  FLOAT4_E2M1FN = 33
  FLOAT_REF = 101
  DOUBLE_REF = 102
  INT32_REF = 103
  UINT8_REF = 104
  INT16_REF = 105
  INT8_REF = 106
  STRING_REF = 107
  COMPLEX64_REF = 108
  INT64_REF = 109
  BOOL_REF = 110
  QINT8_REF = 111
  QUINT8_REF = 112
  QINT32_REF = 113
  BFLOAT16_REF = 114
  QINT16_REF = 115
  QUINT16_REF = 116
  UINT16_REF = 117
  COMPLEX128_REF = 118
  HALF_REF = 119
  RESOURCE_REF = 120
  VARIANT_REF = 121
  UINT32_REF = 122
  UINT64_REF = 123
  FLOAT8_E5M2_REF = 124
  FLOAT8_E4M3FN_REF = 125
  FLOAT8_E4M3FNUZ_REF = 126
  FLOAT8_E4M3B11FNUZ_REF = 127
  FLOAT8_E5M2FNUZ_REF = 128
  INT4_REF = 129
  UINT4_REF = 130
  INT2_REF = 131
  UINT2_REF = 132
  FLOAT4_E2M1FN_REF = 133

  @property
  def numpy(self) -> "np.dtype[Any]":
    """Returns the numpy type of the elements: `object` (bytes) for strings, plain integers for quantized integers.

    Raises:
      UnsupportedDTypeError: the type is RESOURCE, VARIANT or INVALID.

    Differs from TF: `tf.qint8.as_numpy_dtype` is a structured type with one field; here it is `int8`.
    """
    dtype = _NUMPY.get(self.base)
    if dtype is None:
      raise UnsupportedDTypeError(
        f"dtype {self.tf_name!r} has no numpy counterpart; expected a number, bool or string type."
      )
    return dtype

  @property
  def tf_name(self) -> str:
    """Returns TensorFlow's name: `"float32"`, `"string"`, `"int64_ref"`."""
    return _TF_NAMES[self]

  @property
  def is_ref(self) -> bool:
    return self > _REF_OFFSET

  @property
  def base(self) -> "DType":
    """Returns the same type without the reference mark."""
    return DType(self - _REF_OFFSET) if self > _REF_OFFSET else self

  @classmethod
  def from_numpy(cls, dtype: Any) -> "DType":
    """Returns the element type for anything that `np.dtype` accepts. `object` and str give STRING.

    Raises:
      UnsupportedDTypeError: TensorFlow has no such type.
    """
    normal = np.dtype(dtype)
    if normal.kind in "SU":
      return cls.STRING
    found = _FROM_NUMPY.get(normal.newbyteorder("=")) if normal.fields is None else None
    if found is None:
      raise UnsupportedDTypeError(f"numpy dtype {normal.name!r} has no TensorFlow counterpart; cast the array.")
    return found

  @classmethod
  def from_name(cls, tf_name: str) -> "DType":
    """Returns the type with this `tf_name`.

    Raises:
      UnsupportedDTypeError: there is no such type.
    """
    found = _FROM_NAME.get(tf_name)
    if found is None:
      raise UnsupportedDTypeError(f"dtype name {tf_name!r} is unknown; expected a name such as 'float32' or 'int64'.")
    return found

  def __str__(self) -> str:
    return self.tf_name

  def __repr__(self) -> str:
    return f"DType.{self.name}"


# The order matters for from_numpy: quantized types come after the plain integers that share their numpy type.
_NUMPY: "dict[DType, np.dtype[Any]]" = {
  DType.FLOAT: np.dtype(np.float32),
  DType.DOUBLE: np.dtype(np.float64),
  DType.INT32: np.dtype(np.int32),
  DType.UINT8: np.dtype(np.uint8),
  DType.INT16: np.dtype(np.int16),
  DType.INT8: np.dtype(np.int8),
  DType.STRING: np.dtype(object),
  DType.COMPLEX64: np.dtype(np.complex64),
  DType.INT64: np.dtype(np.int64),
  DType.BOOL: np.dtype(np.bool_),
  DType.BFLOAT16: np.dtype(ml_dtypes.bfloat16),
  DType.UINT16: np.dtype(np.uint16),
  DType.COMPLEX128: np.dtype(np.complex128),
  DType.HALF: np.dtype(np.float16),
  DType.UINT32: np.dtype(np.uint32),
  DType.UINT64: np.dtype(np.uint64),
  DType.FLOAT8_E5M2: np.dtype(ml_dtypes.float8_e5m2),
  DType.FLOAT8_E4M3FN: np.dtype(ml_dtypes.float8_e4m3fn),
  DType.FLOAT8_E4M3FNUZ: np.dtype(ml_dtypes.float8_e4m3fnuz),
  DType.FLOAT8_E4M3B11FNUZ: np.dtype(ml_dtypes.float8_e4m3b11fnuz),
  DType.FLOAT8_E5M2FNUZ: np.dtype(ml_dtypes.float8_e5m2fnuz),
  DType.INT4: np.dtype(ml_dtypes.int4),
  DType.UINT4: np.dtype(ml_dtypes.uint4),
  DType.INT2: np.dtype(ml_dtypes.int2),
  DType.UINT2: np.dtype(ml_dtypes.uint2),
  DType.FLOAT4_E2M1FN: np.dtype(ml_dtypes.float4_e2m1fn),
  DType.QINT8: np.dtype(np.int8),
  DType.QUINT8: np.dtype(np.uint8),
  DType.QINT16: np.dtype(np.int16),
  DType.QUINT16: np.dtype(np.uint16),
  DType.QINT32: np.dtype(np.int32),
}
_FROM_NUMPY: "dict[np.dtype[Any], DType]" = {}
for _dtype, _numpy_dtype in _NUMPY.items():
  _FROM_NUMPY.setdefault(_numpy_dtype, _dtype)


def _make_tf_name(dtype: DType) -> str:
  base, _, ref = dtype.name.partition("_REF")
  special = {"FLOAT": "float32", "DOUBLE": "float64", "HALF": "float16"}
  return special.get(base, base.lower()) + ("_ref" if dtype.is_ref else "")


_TF_NAMES = {dtype: _make_tf_name(dtype) for dtype in DType}
_FROM_NAME = {name: dtype for dtype, name in _TF_NAMES.items()}
