"""Values in control flow that are not arrays: tensor lists, optionals and gradients of TensorArrays.

The lowerings that make and read them are in `lists`.

- `arithmetic`: Zeros and sums of tensor lists and optionals, which their derivatives need.
- `optional_value`: The value of an optional: all alternatives that a branch or an iteration may store in it.
- `padded_value`: Elements of tensor lists that differ in shape, and ragged tensors as variants: padded arrays with
  their sizes.
- `row_packing`: Rows of different lengths, padded to one length, from and to one array without padding between them.
- `structures`: Common structures of tensor lists and optionals, for JAX's control flow.
- `tensor_array_gradient`: Gradients of the elements of a TensorFlow 1 TensorArray, as a value.
- `tensor_list_value`: The value of a tensor list: a buffer and a length, so that it can be a loop variable.
"""
