"""Tensor lists, TensorArrays and optionals: values in control flow that are not arrays."""

# The modules that register lowerings. The other modules hold what these share.
LOWERINGS = (
  "optional",
  "tensor_array",
  "tensor_list",
)
