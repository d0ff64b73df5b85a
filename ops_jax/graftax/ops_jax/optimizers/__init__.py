"""One step of an optimizer, for dense and for sparse gradients.

- `application`: Applying one step of an optimizer to variables: to all elements, or to the rows of a sparse gradient.
- `apply_ops`: The optimizer ops: ResourceApplyAdam, ApplyAdam, ResourceSparseApplyMomentum, SparseApplyMomentum and so
  on.
- `steps`: The arithmetic of optimizers: `(*variables, *numbers) -> new variables`, elementwise, as in TensorFlow's
  kernels.
"""

# The modules that register lowerings; the others are helpers.
LOWERINGS = ("apply_ops",)
