"""Options that change what lowerings produce."""

import dataclasses
from collections.abc import Mapping

from graftax.graphdef_ir import Limits

__all__ = ["LoweringOptions"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LoweringOptions:
  """Choices that a lowering can read through its context.

  Attributes:
    resize_bilinear_precision: for compatibility with TF2JAX; has no effect. `ResizeBilinear` interpolates in float32 as
      TensorFlow does, and multiplies no matrices.
    raise_on_prevent_gradient: whether differentiating through `PreventGradient` is a `LookupError`.
    enable_checkify_for_asserts: turn `Assert` into `jax.experimental.checkify.check` rather than dropping it.
    infer_relu_from_jax2tf: for compatibility with TF2JAX; has no effect. The derivative of jax2tf's relu comes from
      the gradient function that jax2tf exported with it; without one, the code `maximum(x, 0)` is differentiated as it
      stands.
    infer_cumulative_reduction_from_jax2tf: for compatibility with TF2JAX; has no effect. Windows of a cumulative
      reduction are always recognized in StableHLO, and the results are the same either way.
    xlacallmodule_strict_checks: raise for a StableHLO module that was lowered for another platform.
    max_while_iterations: bound for loops whose trip count depends on traced data. With a bound, such a loop is a `scan`
      of that length. Its reverse pass recomputes nothing, and needs memory for the whole length. Without a bound, it is
      a `while_loop`. Its reverse pass recomputes iterations, and needs bounded memory. If a loop needs more iterations
      than the bound, its floating-point results and variables are NaN, signed integers are the least and unsigned ones
      the greatest of their dtype, and booleans are true; with `enable_checkify_for_asserts`, a check fails. Lists that
      grow in the loop get room for as many elements as it may write, counted without gaps.
    max_sizes: bounds for sizes that depend on traced data, by node name or op name; a node's name goes first, and
      "While" is the name of all loops. Outside of `jit` and other transformations bounds are not used. A size
      without a bound that follows from shapes needs one under `jit`, and a smaller bound than that saves memory. Data
      that exceeds it is reported: by a check with `enable_checkify_for_asserts`; by `BoundedArray.overflowed` of
      results of bounded size; and by NaN, extreme integers or true in results that were computed from it.
    allow_custom_calls: custom-call targets that StableHLO modules (`XlaCallModule`) may call although no rule says
      which types they accept; see `graftax.xla_call_module.lift`.
    limits: how much memory and time the program may ask for while it is converted and traced. A program that asks for
      more raises LimitExceededError, which names the node and the limit to raise.
  """

  resize_bilinear_precision: str = "highest"
  raise_on_prevent_gradient: bool = True
  enable_checkify_for_asserts: bool = False
  infer_relu_from_jax2tf: bool = True
  infer_cumulative_reduction_from_jax2tf: bool = True
  xlacallmodule_strict_checks: bool = True
  max_while_iterations: int | None = None
  max_sizes: Mapping[str, int] | None = dataclasses.field(default=None, hash=False)
  allow_custom_calls: tuple[str, ...] = ()
  limits: Limits = dataclasses.field(default_factory=Limits)
