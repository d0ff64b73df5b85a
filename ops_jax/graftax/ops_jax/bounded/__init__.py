"""Arrays whose sizes depend on data, under `jit`: padded to a bound, with their length.

`Where`, `Unique`, `NonMaxSuppression`, `DynamicPartition`, and slices, ranges and fills of traced size make them if
their inputs are traced. The bound follows from shapes (`Where` of n elements finds at most n), from arithmetic on
sizes (`min(100, n)`), or from the option `max_sizes`. XLA calls this bounded dynamism. Outside of `jit` and other
transformations sizes are known, and none of this runs.

An op carries such arrays if it has a rule, which the stage `CarryBounded` of its kernels applies. An op without a rule
raises `StaticInputError`. Most rules run the op's ordinary lowering on padded arrays, after they have put a neutral
element in place of the padding:

- `values`: The value: an array whose sizes depend on data, as a padded array with its lengths.
- `rules`: How ops carry arrays of bounded size: a table of rules by op, and what every rule is given.
- `dispatch`: The stage of a kernel that applies the rule of an op to arrays of bounded size.
- `masks`: Masks, and how arrays of bounded size are aligned, filled and marked as invalid.
- `concat_split`: Joining and splitting: Concat, ConcatV2, Pack, Unpack, Split, SplitV.
- `creation`: Arrays of traced size: Range, Fill, BroadcastTo, Tile, OneHot.
- `ctc_decoders`: Labels from the logits of a CTC model: CTCGreedyDecoder.
- `dynamic_dimensions`: Dimensions that a graph itself declares as dynamic: XlaSetDynamicDimensionSize,
  XlaRemoveDynamicDimensionSize.
- `dynamic_partition`: Rows split by label: DynamicPartition.
- `elementwise`: Elementwise ops, which broadcast: arithmetic, comparisons, activations, Cast, SelectV2.
- `forms`: Forms of arrays of bounded size, so that they can be operands of loops and branches, whose structure is
  fixed.
- `gather`: Gathers: Gather, GatherV2, GatherNd, ResourceGather. Positions in the padding of `params` are out of
  range.
- `matmul`: Products of matrices: MatMul, BatchMatMul, Einsum. Padding is 0, so it adds nothing to a sum of
  products.
- `non_max_suppression`: NonMaxSuppression in all versions: the number of selected boxes depends on data, and has a
  declared maximum.
- `ragged`: Ragged tensors whose number of elements depends on data: RaggedRange, RaggedGather,
  RaggedTensorToTensor.
- `ragged_variant`: Ragged tensors in variants whose sizes depend on data: RaggedTensorToVariant,
  RaggedTensorFromVariant.
- `reduction`: Reductions and cumulative sums, with a neutral element in place of the padding.
- `reverse_roll`: Reversal and rotation along axes of bounded size: ReverseV2, Roll.
- `rows`: Ops that treat the rows of some inputs one by one, such as convolutions of a batch of cut-out images.
- `scatter`: Scatters: ScatterNd, TensorScatterUpdate, DynamicStitch, Bincount. Padding is dropped.
- `segment`: Reductions of rows by segment: UnsortedSegmentSum, SegmentSum, SparseSegmentSum. Rows in the padding are
  dropped.
- `select_where`: Positions of true elements: Where.
- `shape_ops`: Shapes: Shape, Size, Rank, Reshape, ExpandDims, Squeeze, Transpose, EnsureShape, InvertPermutation.
- `slicing`: Slices and paddings along axes of bounded or traced size: Slice, StridedSlice, Pad.
- `sort_search`: Sorting and searching along an axis of bounded size, or for a traced number of elements: TopKV2,
  LowerBound.
- `sparse_tensor`: Sparse tensors whose number of elements depends on data: SparseToDense, SparseReorder,
  SparseReduceSumSparse.
- `tensor_list`: Tensor lists whose length or elements' sizes depend on data: TensorListStack, TensorListGetItem,
  TensorListGather.
- `unique`: Distinct elements, and elements that another vector lacks: Unique, ListDiff.

Three invariants keep results exact. Padding has no meaning, so an op that combines elements along a bounded axis masks
it first. An array without padding enters padded rows only through `masks.masked_derivative`, so no derivative, not even
NaN, leaves the padding. Where TensorFlow would raise because sizes do not fit, or a bound from `max_sizes` is too
small, the length is greater than the bound, and what is computed from it is NaN, an extreme integer or true
(`masks.poisoned`).

A module has the name of the module that it extends: the rule for `array/gather.py` is in `gather`. `elementwise`,
`rows` and `reduction` extend several; `dynamic_dimensions` extends `tf2xla/slicing.py`. A new rule is a function with
the decorator `carries` or `makes` in one of these modules. A new module is added to this list, and to `_MODULES` in
`rules`. `rules_test.py` has a case for each op, which compares it under `jit` with TensorFlow at all sizes. The rule of
a user's op is passed to `register(bounded=)`.
"""
