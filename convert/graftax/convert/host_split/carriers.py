"""What travels between the parts of a split program besides arrays: known values, and strings as bytes."""

import dataclasses
from typing import Any

import jax
import numpy as np

from graftax.convert.host_ops.values import string_array
from graftax.convert.pytrees import Leaf

__all__ = ["KnownArray", "PackedStrings"]


@dataclasses.dataclass(frozen=True)
class KnownArray:
  """An array on whose values shapes depend. It stays known under `jit`, which compiles again for other values.

  Attributes:
    value: the array.
  """

  value: np.ndarray


@dataclasses.dataclass(frozen=True)
class PackedStrings:
  """An array of strings as numbers, which pass through `jit`.

  Attributes:
    data: the bytes of all strings, one after the other, padded with zeros to a power of two.
    ends: for each string the position of its end.
    shape: the shape of the array.
  """

  data: Leaf
  ends: Leaf
  shape: tuple[int, ...]

  @classmethod
  def pack(cls, strings: np.ndarray) -> "PackedStrings":
    """Returns an array of strings in this form."""
    items = strings.reshape(-1).tolist()
    joined = b"".join(items)
    # jit compiles again for another length, so lengths are rounded.
    size = 1 << (len(joined) - 1).bit_length() if joined else 0
    data = np.frombuffer(joined.ljust(size, b"\0"), np.uint8)
    return cls(data, np.cumsum([len(item) for item in items], dtype=np.int32), strings.shape)

  def unpack(self) -> np.ndarray:
    """Returns the array of strings."""
    joined, ends = np.asarray(self.data).tobytes(), np.asarray(self.ends).tolist()
    return string_array((joined[start:end] for start, end in zip([0, *ends], ends, strict=False)), self.shape)


def _flatten_known(known: KnownArray) -> tuple[tuple[()], tuple[Any, ...]]:
  return (), (known.value.shape, known.value.dtype.str, known.value.tobytes())


def _unflatten_known(parts: tuple[Any, ...], children: Leaf) -> KnownArray:
  del children
  shape, dtype, data = parts
  return KnownArray(np.frombuffer(data, dtype).reshape(shape))


def _unflatten_strings(shape: tuple[int, ...], children: Leaf) -> PackedStrings:
  data, ends = children
  return PackedStrings(data, ends, shape)


jax.tree_util.register_pytree_node(KnownArray, _flatten_known, _unflatten_known)
jax.tree_util.register_pytree_node(PackedStrings, lambda s: ((s.data, s.ends), s.shape), _unflatten_strings)
