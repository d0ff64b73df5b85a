"""`dot_general` as MatMul, BatchMatMulV2 or Einsum."""

import dataclasses
import string
from typing import Any

import numpy as np

from graftax.convert.jax2tf.tf_ops.builder import Builder
from graftax.convert.jax2tf.tf_ops.cpu_kernels import has_kernel
from graftax.convert.jax2tf.tf_ops.registry import rule
from graftax.convert.jax2tf.tf_ops.rules._common import cast
from graftax.convert.jax2tf.tf_ops.tensors import Tensor
from graftax.graphdef_ir import DType

__all__ = ["rounded"]


@rule("dot_general", ignores=("precision", "preferred_element_type"))
def dot_general(b: Builder, x: Tensor, y: Tensor, *, dimension_numbers: Any, out: Any) -> Tensor:
  """Returns the sums of products along contracting axes, for each position along batch axes."""
  dtype = _computed_in(np.dtype(out.dtype), x, y)
  x, y = cast(b, x, dtype), cast(b, y, dtype)
  (x_contracting, y_contracting), (x_batch, y_batch) = dimension_numbers
  num_batch = len(x_batch)
  leading = tuple(range(num_batch))
  is_matrices = x.rank == y.rank == num_batch + 2 and len(x_contracting) == 1
  if is_matrices and tuple(x_batch) == tuple(y_batch) == leading:
    found = _matrix_product(b, x, y, x_contracting[0] == num_batch, y_contracting[0] == num_batch + 1, out)
  else:
    found = b.op("Einsum", [x, y], shape=out.shape, equation=_equation(x, y, dimension_numbers).encode())
  return rounded(b, found, out.dtype)


def rounded(b: Builder, product: Tensor, dtype: "np.dtype[Any]") -> Tensor:
  """Returns a product as the dtype of the result; a cast to more bits reads the product itself, as in XLA."""
  found = cast(b, product, dtype)
  is_shorter = found.is_float and dtype.itemsize < product.dtype.itemsize
  return dataclasses.replace(found, unrounded=product) if is_shorter else found


def _matrix_product(b: Builder, x: Tensor, y: Tensor, transpose_x: bool, transpose_y: bool, out: Any) -> Tensor:
  if x.rank == 2:
    return b.op("MatMul", x, y, shape=out.shape, transpose_a=transpose_x, transpose_b=transpose_y)
  if x.dtype.kind != "c":  # adj_x would conjugate
    return b.op("BatchMatMulV2", x, y, shape=out.shape, adj_x=transpose_x, adj_y=transpose_y)
  batch = string.ascii_letters[: x.rank - 2]
  of_x, of_y = ("ZX" if transpose_x else "XZ"), ("YZ" if transpose_y else "ZY")
  return b.op("Einsum", [x, y], shape=out.shape, equation=f"{batch}{of_x},{batch}{of_y}->{batch}XY".encode())


def _equation(x: Tensor, y: Tensor, dimension_numbers: Any) -> str:
  """Returns a dot product in the language of Einsum."""
  (x_contracting, y_contracting), (x_batch, y_batch) = dimension_numbers
  letters = iter(string.ascii_letters)
  of_x = {axis: next(letters) for axis in range(x.rank)}
  of_y = {j: of_x[i] for i, j in zip((*x_batch, *x_contracting), (*y_batch, *y_contracting), strict=True)}
  of_y = {axis: of_y[axis] if axis in of_y else next(letters) for axis in range(y.rank)}
  free_x = [of_x[axis] for axis in range(x.rank) if axis not in (*x_batch, *x_contracting)]
  free_y = [of_y[axis] for axis in range(y.rank) if axis not in (*y_batch, *y_contracting)]
  result = [*(of_x[axis] for axis in x_batch), *free_x, *free_y]
  return f"{''.join(of_x.values())},{''.join(of_y.values())}->{''.join(result)}"


def _computed_in(out: "np.dtype[Any]", x: Tensor, y: Tensor) -> "np.dtype[Any]":
  """Returns the dtype of the product: that of the result or wider, and one that TensorFlow multiplies."""
  dtype = out
  if x.is_float and out.kind != "c":
    # TensorFlow's kernels for 16 bits also sum in 16 bits.
    dtype = np.dtype(np.float64 if np.float64 in (x.dtype, y.dtype, out) else np.float32)
  if has_kernel("Einsum", {"T": DType.from_numpy(dtype)}):
    return dtype
  # Integers wrap around, so the low bits of wider ones are the result.
  return np.dtype(np.int64 if dtype.itemsize > 2 else np.int32)
