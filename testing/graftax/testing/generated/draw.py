"""Random choices of a case: dtypes, sizes, attributes and array values."""

import zlib
from collections.abc import Sequence
from typing import Any, TypeVar

import ml_dtypes
import numpy as np

from graftax.graphdef_ir import AttrValue, DType, OpArg, OpSignature, op_signature
from graftax.testing.generated.case import CaseId

__all__ = ["STYLES", "Draw"]

_T = TypeVar("_T")

# Style of the values that a case is drawn with: `values % 4` selects it.
#   plain: normally distributed floats, small integers.
#   ties: few distinct values, signed zeros among them.
#   special: NaN, infinities, zeros, subnormal and largest numbers among plain ones; smallest and largest integers.
#   wide: magnitudes over many powers of ten; integers over their whole range.
STYLES = ("plain", "ties", "special", "wide")

_COMMON = (np.float32, np.int32)


class Draw:
  """Random source of one case.

  Structure (dtypes, attributes, shapes, static inputs) comes from one generator and array values from another, so cases
  with the same structure run the same compiled program.

  Attributes:
    signature: the op's inputs and attributes.
    attrs: attribute values drawn so far. Recipes overwrite those that need a particular value.
    style: one of `STYLES`.
  """

  def __init__(self, case_id: CaseId) -> None:
    seed = zlib.crc32(case_id.op.encode())
    self.op = case_id.op
    self.signature: OpSignature = op_signature(case_id.op)
    self.style = STYLES[case_id.values % len(STYLES)]
    self._structure = np.random.default_rng((seed, case_id.structure))
    self._values = np.random.default_rng((seed, case_id.structure, case_id.values))
    self.attrs: dict[str, Any] = {}
    for name, attr in self.signature.attrs.items():
      if attr.type == "type":
        self.attrs[name] = self._type(attr.allowed)
      elif attr.type == "bool":
        self.attrs[name] = self.chance(0.5) if attr.default is None else self.chance(0.7) == attr.default
      elif attr.allowed:
        self.attrs[name] = self.pick([option.decode() for option in attr.allowed if isinstance(option, bytes)])
      elif attr.default is not None:
        self.attrs[name] = attr.default

  def _type(self, allowed: Sequence[AttrValue] | None) -> np.dtype:
    options = [d for d in allowed or list(DType) if isinstance(d, DType) and _has_values(d)]
    dtypes = sorted({np.dtype(d.numpy) for d in options}, key=str)
    common = [d for d in dtypes if d in _COMMON]
    return self.pick(common) if common and self.chance(0.4) else self.pick(dtypes)

  def dtype(self, arg: OpArg) -> np.dtype:
    """Returns the dtype of an input."""
    return np.dtype(arg.dtype.numpy) if arg.dtype is not None else self.attrs[arg.type_attr or ""]

  # Structure.

  def chance(self, probability: float) -> bool:
    """Returns True with the given probability."""
    return bool(self._structure.random() < probability)

  def pick(self, options: Sequence[_T]) -> _T:
    """Returns one of `options`."""
    return options[int(self._structure.integers(len(options)))]

  def integer(self, low: int, high: int) -> int:
    """Returns an integer between `low` and `high`, both included."""
    return int(self._structure.integers(low, high + 1))

  def size(self, low: int = 0, high: int = 4) -> int:
    """Returns the size of a dimension; 0, where it is allowed, is rare."""
    return low if low == 0 and self.chance(0.08) else self.integer(max(low, 1), high)

  def shape(self, low: int = 0, high: int = 4, max_size: int = 4) -> tuple[int, ...]:
    """Returns a shape with between `low` and `high` dimensions."""
    return tuple(self.size(0, max_size) for _ in range(self.integer(low, high)))

  def permutation(self, n: int) -> list[int]:
    """Returns the numbers below `n` in random order."""
    return [int(i) for i in self._structure.permutation(n)]

  def subset(self, n: int) -> list[int]:
    """Returns some of the numbers below `n`, in random order."""
    return self.permutation(n)[: self.integer(0, n)]

  def axis(self, rank: int) -> int:
    """Returns an axis, negative in half of the cases."""
    return self.integer(-rank, rank - 1)

  def axes(self, rank: int) -> list[int]:
    """Returns some axes, some of them negative."""
    return [i - rank * self.chance(0.3) for i in self.subset(rank)]

  def broadcastable(self, shape: Sequence[int]) -> tuple[int, ...]:
    """Returns a shape that broadcasts to `shape`."""
    if self.chance(0.4):
      return tuple(shape)
    kept = shape[self.integer(0, len(shape)) if self.chance(0.4) else 0 :]
    return tuple(1 if self.chance(0.3) else n for n in kept)

  # Values.

  def array(self, shape: Sequence[int], dtype: Any = None) -> np.ndarray:
    """Returns an array of the case's style, by default of the dtype of the attribute `T`."""
    dtype = np.dtype(self.attrs["T"] if dtype is None else dtype)
    if dtype.kind == "b":
      return self._values.random(shape) < 0.5
    if dtype.kind in "iu":
      return self._integers(shape, dtype)
    if dtype.kind == "c":
      part = np.dtype(np.float32 if dtype == np.complex64 else np.float64)
      x = np.empty(shape, dtype)
      x.real, x.imag = self._floats(shape, part), self._floats(shape, part)
      return x
    return self._floats(shape, dtype)

  def tame(self, shape: Sequence[int], dtype: Any = None) -> np.ndarray:
    """Returns plain values or ties, for ops that need finite numbers of one magnitude."""
    style, self.style = self.style, "ties" if self.style == "ties" else "plain"
    x = self.array(shape, dtype)
    self.style = style
    return x

  def between(self, shape: Sequence[int], dtype: Any, low: float, high: float) -> np.ndarray:
    """Returns values between `low` and `high`, both included for integers."""
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
      return np.asarray(self._values.integers(int(low), int(high) + 1, shape)).astype(dtype)
    return np.asarray(self._values.uniform(low, high, shape)).astype(dtype)

  def indices(self, shape: Sequence[int], dtype: Any, size: int) -> np.ndarray:
    """Returns indices into a dimension of `size`."""
    return self.between(shape, dtype, 0, max(size - 1, 0))

  def _integers(self, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    info = np.iinfo(dtype)
    low = 0 if dtype.kind == "u" else -5
    if self.style == "wide":
      return self._values.integers(info.min, info.max, shape, dtype, endpoint=True)
    x = np.asarray(self._values.integers(low // 2 if self.style == "ties" else low, 4, shape)).astype(dtype)
    if self.style == "special":
      extremes = np.array([info.min, info.max, 0, info.max // 2 + 1], dtype)
      x = np.where(self._values.random(shape) < 0.4, self._values.choice(extremes, shape), x)
    return x

  def _floats(self, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    info = ml_dtypes.finfo(dtype)
    x: np.ndarray = self._values.normal(size=shape) * 2
    if self.style == "ties":
      x = self._values.choice([-2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0], shape)
    if self.style == "wide":
      reach = min(np.log10(float(info.max)) * 0.45, 30)
      x = np.sign(x) * 10 ** self._values.uniform(-reach, reach, shape)
    x = np.asarray(x).astype(dtype)
    if self.style == "special":
      tiny, largest = info.smallest_subnormal, info.max
      found = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, tiny, largest, -largest], dtype)
      x = np.where(self._values.random(shape) < 0.4, self._values.choice(found, shape), x)
    return x


def _has_values(dtype: DType) -> bool:
  name = dtype.name
  if name.startswith(("Q", "FLOAT8", "INT4", "UINT4", "INT2", "UINT2", "FLOAT4")) or name.endswith("_REF"):
    return False
  return name not in ("INVALID", "STRING", "RESOURCE", "VARIANT")
