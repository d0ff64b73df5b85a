"""Tensor lists, TensorArrays and optionals: values in control flow that are not arrays.

- `optional`: Optionals, in which a branch saves values for the branch of its gradient: OptionalFromValue.
- `optional_value`: The value of an optional: all alternatives that a branch or an iteration may store in it.
- `tensor_array`: TensorFlow 1's TensorArrays: TensorArrayV3 and related ops.
- `tensor_array_gradient`: Gradients of the elements of a TensorFlow 1 TensorArray, as a value.
- `tensor_list`: Tensor lists (TF2 TensorArrays, `map_fn`, `scan`, RNNs): TensorListReserve and related ops.
- `tensor_list_value`: The value of a tensor list: a buffer and a length, so that it can be a loop variable.
- `variant_arithmetic`: Zeros and sums of tensor lists and optionals, which their derivatives need.
- `variants`: Common structures of tensor lists and optionals, for JAX's control flow.
"""

# The modules that register lowerings; the others are helpers.
LOWERINGS = (
  "optional",
  "tensor_array",
  "tensor_list",
)
