"""Stops gradients at ops that TensorFlow declares not to be differentiable.

`tf.GradientTape` passes nothing through these ops, and raises no error. So what is before them gets no gradient here
either, even if the lowering has a derivative. A user's own lowering keeps its derivative.
"""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax

from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.stages import Run
from graftax.ops_jax._core.values import Value

__all__ = ["NOT_DIFFERENTIABLE", "StopGradients"]

NOT_DIFFERENTIABLE = frozenset(
  """
  CTCBeamSearchDecoder CTCGreedyDecoder DrawBoundingBoxes EditDistance ExtractGlimpse FakeQuantWithMinMaxArgsGradient
  FakeQuantWithMinMaxVarsGradient FakeQuantWithMinMaxVarsPerChannelGradient HSVToRGB LinSpace LookupTableFind
  LookupTableFindV2 OneHot ParameterizedTruncatedNormal RaggedRange RandomCrop RandomShuffle Range ResizeBilinearGrad
  SampleDistortedBoundingBox SampleDistortedBoundingBoxV2 SparseAddGrad SparseConcat StatelessRandomBinomial
  StatelessRandomPoisson TensorListConcatLists
  """.split()
)
"""The ops with `tf.no_gradient` that have a lowering, and floating-point numbers as inputs and results.

`XlaVariadicReduce` is not among them: the ops of XLA have derivatives here, and most of them none in TensorFlow.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class StopGradients:
  """Returns the results as constants for differentiation."""

  def __str__(self) -> str:
    return "derivative: none, as in TensorFlow"

  def wrap(self, run: Run) -> Run:
    """See `Stage`."""

    def without_gradients(context: Context, inputs: Sequence[Value]) -> tuple[Value, ...]:
      return tuple(jax.tree.map(_stopped, output) for output in run(context, inputs))

    return without_gradients


def _stopped(leaf: object) -> object:
  is_number = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jnp.inexact)
  return lax.stop_gradient(leaf) if is_number else leaf
