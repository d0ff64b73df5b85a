"""Tensor lists, TensorArrays and optionals: values in control flow that are not arrays.

- `optional`: Optionals, in which a branch saves values for the branch of its gradient: OptionalFromValue.
- `ragged_variant`: Ragged tensors in variants, as `tf.map_fn` passes them on: RaggedTensorToVariant,
  RaggedTensorFromVariant.
- `tensor_array`: TensorFlow 1's TensorArrays: TensorArrayV3 and related ops.
- `tensor_list`: Tensor lists (TF2 TensorArrays, `map_fn`, `scan`, RNNs): TensorListReserve and related ops.
"""

# The modules that register lowerings; the others are helpers.
LOWERINGS = (
  "optional",
  "ragged_variant",
  "tensor_array",
  "tensor_list",
)
