"""Arrays: creation, shapes, slicing, joining, gather and scatter, sorting, casts.

- `broadcasting`: Broadcasting: BroadcastTo, BroadcastArgs, BroadcastGradientArgs.
- `cast`: Conversion between dtypes, by value and by bits: Cast, Bitcast.
- `concat_split`: Joining and splitting along an axis: ConcatV2, Pack, Unpack, Split, SplitV, Tile, ConcatOffset.
- `creation`: Array creation: Const, Fill, ZerosLike, Range, LinSpace, OneHot, Empty.
- `diagonal`: Diagonals and bands of matrices: MatrixBandPart, MatrixDiag, MatrixDiagPart, MatrixSetDiag, Diag.
- `dynamic_partition`: Rows split by label, and collected again: DynamicPartition, DynamicStitch.
- `gather`: Elements and slices at given positions: GatherV2, Gather, GatherNd, UnravelIndex.
- `identity`: Ops that return their input: Identity, StopGradient, CheckNumerics, EnsureShape, Placeholder; also NoOp,
  Assert.
- `padding`: Padding with a constant or with mirrored values: Pad, PadV2, MirrorPad. Paddings must be known.
- `reverse_roll`: Reversal and rotation along axes: ReverseV2, ReverseSequence, Roll.
- `scatter`: Updates at given coordinates: ScatterNd, TensorScatterUpdate, TensorScatterAdd, InplaceUpdate.
- `select_where`: Selection by condition: Select, SelectV2, Where.
- `shape_ops`: Shapes: Shape, Size, Rank, Reshape, ExpandDims, Squeeze, Transpose, InvertPermutation. Known values stay
  known.
- `slicing`: Slices: Slice, StridedSlice with all of its masks, StridedSliceGrad, TensorStridedSliceUpdate.
- `sort_search`: Sorting and searching: TopKV2, NthElement, InTopK, LowerBound, UpperBound, Bucketize.
- `strided_gather`: Gathers at known positions with a constant stride, as slices.
- `unique`: Distinct elements: Unique, UniqueWithCounts, UniqueV2, ListDiff. The data must be known while tracing.
"""

# The modules that register lowerings; the others are helpers.
LOWERINGS = (
  "broadcasting",
  "cast",
  "concat_split",
  "creation",
  "diagonal",
  "dynamic_partition",
  "gather",
  "identity",
  "padding",
  "reverse_roll",
  "scatter",
  "select_where",
  "shape_ops",
  "slicing",
  "sort_search",
  "unique",
)
