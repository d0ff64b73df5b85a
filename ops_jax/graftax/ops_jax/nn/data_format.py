"""Translation of axes and shapes between layouts: DataFormatDimMap, DataFormatVecPermute."""

import numpy as np

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, namespace

__all__ = ["data_format_dim_map", "data_format_vec_permute"]


def _check_formats(op: str, src_format: str, dst_format: str) -> None:
  if sorted(src_format) != sorted(dst_format):
    raise InvalidInputError(
      f"{op}: src_format={src_format!r} and dst_format={dst_format!r} do not name the same dimensions."
    )


@register("DataFormatDimMap", ignores=("T",))
def data_format_dim_map(x: Array, *, src_format: str = "NHWC", dst_format: str = "NCHW") -> Array:
  """Maps dimension numbers `x` of layout `src_format` to `dst_format`; negative ones count from the end.

  Source op: `tf.raw_ops.DataFormatDimMap`.

  Args:
    x: any shape, integers in `[-rank, rank)`.
    src_format: such as `"NHWC"`.
    dst_format: the same letters in another order.

  Returns:
    Same shape and dtype; known if `x` is.
  """
  _check_formats("DataFormatDimMap", src_format, dst_format)
  xp = namespace(x)
  table = xp.asarray(np.array([dst_format.index(letter) for letter in src_format], np.dtype(x.dtype)))
  return table[xp.where(x < 0, x + len(src_format), x)]


@register("DataFormatVecPermute", ignores=("T",), symbolic=True)
def data_format_vec_permute(x: Array, *, src_format: str = "NHWC", dst_format: str = "NCHW") -> Array:
  """Reorders one number, or pair, per dimension from layout `src_format` to `dst_format`.

  Source op: `tf.raw_ops.DataFormatVecPermute`.

  Args:
    x: `[rank]` or `[rank, 2]` integers; or, without batch and channels, `[rank - 2]` or `[rank - 2, 2]`.
    src_format: such as `"NHWC"`.
    dst_format: the same letters in another order.

  Returns:
    Same shape and dtype; known if `x` is.
  """
  _check_formats("DataFormatVecPermute", src_format, dst_format)
  if x.shape[0] == len(src_format) - 2:
    src_format, dst_format = (f.replace("N", "").replace("C", "") for f in (src_format, dst_format))
  if x.shape[0] != len(src_format):
    raise InvalidInputError(
      f"DataFormatVecPermute: x has {x.shape[0]} rows; expected one per dimension of {src_format!r}."
    )
  return x[np.array([src_format.index(letter) for letter in dst_format])]
