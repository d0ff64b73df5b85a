"""Sparse and ragged tensors.

- `arithmetic`: Sparse tensors merged or reduced to sparse tensors: SparseAdd, SparseSparseMaximum,
  SparseReduceSumSparse.
- `counts`: How often each integer occurs, as a sparse tensor: DenseCountSparseOutput, SparseCountSparseOutput and
  others.
- `cross`: Crossed features as hash buckets: SparseCross, RaggedCross. Integer columns only.
- `edit_distance`: The number of edits between rows of sparse tensors: EditDistance. All inputs must be known.
- `fill_slice_split`: Sparse tensors cut or filled: SparseFillEmptyRows, SparseSlice, SparseSplit. Coordinates must be
  known.
- `ragged`: Ragged tensors (values and row splits): RaggedRange, RaggedTensorToTensor, RaggedTensorToSparse,
  RaggedGather.
- `segment`: Segment reductions of selected rows, as in embedding lookups: SparseSegmentSum, Mean and SqrtN.
- `sets`: Sets along the last axis: DenseToDenseSetOperation, SparseToSparseSetOperation, SetSize. All inputs must be
  known.
- `sparse_tensor`: Sparse tensors with results of static shape: SparseToDense, SparseTensorDenseMatMul, SparseReduceSum,
  SparseConcat.
"""

# The modules that register lowerings; the others are helpers.
LOWERINGS = (
  "arithmetic",
  "counts",
  "cross",
  "edit_distance",
  "fill_slice_split",
  "ragged",
  "segment",
  "sets",
  "sparse_tensor",
)
