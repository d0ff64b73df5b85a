"""Recipes of reductions, cumulative ops, histograms and segment ops."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from graftax.testing.generated.draw import Draw
from graftax.testing.generated.recipes.registry import recipe, recipes_of_shapes

_EXACT = ("All", "Any", "Max", "Min")


@recipe("All", "Any", "EuclideanNorm", "Max", "Mean", "Min", "Prod", "Sum")
def reduction(d: Draw) -> Sequence[Any]:
  """Some axes; sums of numbers of one magnitude, since another order of the others loses all digits."""
  shape = d.shape()
  axes = d.axes(len(shape))
  axis = np.array(axes[0] if len(axes) == 1 and d.chance(0.5) else axes, d.attrs["Tidx"])
  exact = d.op in _EXACT or d.style == "special"
  return [(d.array if exact else d.tame)(shape, d.dtype(d.signature.inputs[0])), axis]


@recipe("Bincount")
def bincount(d: Draw) -> Sequence[Any]:
  """Values beyond the size, with and without weights."""
  shape, size = d.shape(0, 2), d.size(0, 5)
  weights = d.tame(shape if d.chance(0.5) else (0,))
  return [d.between(shape, np.int32, 0, size + 1), np.array(size, np.int32), weights]


@recipe("DenseBincount")
def dense_bincount(d: Draw) -> Sequence[Any]:
  """A vector or a matrix."""
  shape, size = d.shape(1, 2), d.size(0, 5)
  weights = d.tame(shape if d.chance(0.5) else (0,))
  return [d.between(shape, d.attrs["Tidx"], 0, size + 1), np.array(size, d.attrs["Tidx"]), weights]


@recipe("HistogramFixedWidth")
def histogram(d: Draw) -> Sequence[Any]:
  """Values in and out of the range."""
  low = d.integer(-3, 1)
  ends = np.array([low, low + d.integer(1, 5)], d.attrs["T"])
  return [d.between(d.shape(), d.attrs["T"], -6, 8), ends, np.array(d.integer(1, 6), np.int32)]


def _segments(d: Draw, rows: int) -> list[int]:
  """Returns sorted segment numbers with gaps."""
  return sorted(d.integer(0, rows + 1) for _ in range(rows))


@recipe("SegmentMax", "SegmentMean", "SegmentMin", "SegmentProd", "SegmentSum")
def segment(d: Draw) -> Sequence[Any]:
  """Sorted segments, some empty."""
  shape = d.shape(1, 3)
  data = d.array(shape) if d.op in ("SegmentMax", "SegmentMin") else d.tame(shape)
  return [data, np.array(_segments(d, shape[0]), d.attrs["Tindices"])]


@recipe("UnsortedSegmentMax", "UnsortedSegmentMin", "UnsortedSegmentProd", "UnsortedSegmentSum")
def unsorted_segment(d: Draw) -> Sequence[Any]:
  """Segments in any order; negative ones are dropped."""
  shape, count = d.shape(0, 3), d.size(1, 4)
  ids = d.between(shape[: d.integer(0, len(shape))], d.attrs["Tindices"], -1, count - 1)
  make = d.array if d.op in ("UnsortedSegmentMax", "UnsortedSegmentMin") else d.tame
  return [make(shape), ids, np.array(count, d.attrs["Tnumsegments"])]


@recipe(*(f"SparseSegment{kind}{suffix}" for kind in ("Mean", "SqrtN", "Sum") for suffix in ("", "WithNumSegments")))
def sparse_segment(d: Draw) -> Sequence[Any]:
  """Rows by index, in sorted segments."""
  shape, count = (d.size(1, 4), *d.shape(0, 2)), d.size(0, 5)
  segments = np.array(_segments(d, count), d.attrs["Tsegmentids"])
  inputs = [d.tame(shape), d.indices((count,), d.attrs["Tidx"], shape[0]), segments]
  if d.op.endswith("WithNumSegments"):
    total = int(segments.max(initial=-1)) + 1 + d.integer(0, 2)
    return [*inputs, np.array(total, d.attrs["Tnumsegments"])]
  return inputs


@recipe("SparseSegmentMeanGrad", "SparseSegmentSqrtNGrad", "SparseSegmentSumGrad")
def sparse_segment_grad(d: Draw) -> Sequence[Any]:
  count, rows = d.size(1, 5), d.size(1, 4)
  segments = np.array(_segments(d, count), d.attrs["Tsegmentids"])
  grad = d.tame((int(segments.max()) + 1, *d.shape(0, 2)))
  return [grad, d.indices((count,), d.attrs["Tidx"], rows), segments, np.array(rows, np.int32)]


recipes_of_shapes(
  {
    "ArgMax ArgMin": lambda d, s: [
      d.array([max(n, 1) for n in s]),
      np.array(d.axis(len(s)), d.attrs["Tidx"]),
    ],
    "Cumsum Cumprod CumulativeLogsumexp": lambda d, s: [
      (d.tame if d.style == "wide" else d.array)(s),
      np.array(d.axis(len(s)), d.attrs["Tidx"]),
    ],
  },
  (1, 4),
)
