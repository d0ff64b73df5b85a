"""One step of an optimizer, for dense and for sparse gradients.

- `apply_ops`: ResourceApplyAdam, ApplyAdam, ResourceSparseApplyMomentum and so on, one table row per optimizer
- `application`: applies a step to whole variables, or to the rows of a sparse gradient
- `steps`: the arithmetic of each optimizer
"""

# The modules that register lowerings. The other modules hold what these share.
LOWERINGS = ("apply_ops",)
