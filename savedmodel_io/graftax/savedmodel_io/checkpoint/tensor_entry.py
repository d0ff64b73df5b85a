"""What a checkpoint's index says about one tensor."""

from dataclasses import dataclass

from graftax.graphdef_ir import DType
from graftax.savedmodel_io.checkpoint.tensor_slice import TensorSlice

__all__ = ["TensorEntry"]


@dataclass(frozen=True, slots=True)
class TensorEntry:
  """One tensor of a checkpoint, or one stored slice of it.

  Attributes:
    key: the tensor's name in the checkpoint.
    dtype: element type.
    shape: shape of the whole tensor; for a stored slice, of the slice.
    shard: number of the data file that holds the bytes.
    offset_bytes: where they start in it.
    size_bytes: how many there are.
    crc32c: their checksum, masked, as stored.
    slices: the parts a partitioned tensor is stored in; empty when it is stored whole.
  """

  key: str
  dtype: DType
  shape: tuple[int, ...]
  shard: int = 0
  offset_bytes: int = 0
  size_bytes: int = 0
  crc32c: int = 0
  slices: tuple[TensorSlice, ...] = ()
