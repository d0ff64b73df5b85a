"""Options that change what lowerings produce."""

import dataclasses

__all__ = ["LoweringOptions"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LoweringOptions:
  """Choices that a lowering can read through its context.

  Attributes:
    resize_bilinear_precision: for TF2JAX's users; changes nothing. `ResizeBilinear` mixes neighbours in float32, as
      TensorFlow does, and multiplies no matrices.
    raise_on_prevent_gradient: whether differentiating through `PreventGradient` is a `LookupError`.
    enable_checkify_for_asserts: turn `Assert` into `jax.experimental.checkify.check` rather than dropping it.
    infer_relu_from_jax2tf: for TF2JAX's users; changes nothing. The derivative of a relu that jax2tf wrote comes from
      the gradient function that it wrote beside it; without that, the code `maximum(x, 0)` is differentiated as it
      stands.
    infer_cumulative_reduction_from_jax2tf: for TF2JAX's users; changes nothing. Windows that make a cumulative
      reduction are always recognised in StableHLO, and the results are the same either way.
    xlacallmodule_strict_checks: refuse a StableHLO module that was lowered for another platform.
    max_while_iterations: bound for loops whose trip count depends on traced data. With one, such a loop is a `scan` of
      that length, whose reverse pass computes nothing twice and needs memory for all of that length; without, it is a
      `while_loop`, whose reverse pass computes iterations again and needs bounded memory. A loop that is not done by
      then gives NaN in its floating-point results and variables, the least signed or greatest unsigned integer, and
      true (and fails a check under `enable_checkify_for_asserts`). Lists that grow in the loop get room for as many
      elements as it may write, counted without gaps.
  """

  resize_bilinear_precision: str = "highest"
  raise_on_prevent_gradient: bool = True
  enable_checkify_for_asserts: bool = False
  infer_relu_from_jax2tf: bool = True
  infer_cumulative_reduction_from_jax2tf: bool = True
  xlacallmodule_strict_checks: bool = True
  max_while_iterations: int | None = None
