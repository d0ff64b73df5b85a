"""Recipes of ops that quantize floating-point numbers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from graftax.testing.generated.draw import Draw
from graftax.testing.generated.recipes.registry import recipe


@recipe(
  "FakeQuantWithMinMaxArgs FakeQuantWithMinMaxArgsGradient FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsGradient "
  "FakeQuantWithMinMaxVarsPerChannel FakeQuantWithMinMaxVarsPerChannelGradient"
)
def fake_quant(d: Draw) -> Sequence[Any]:
  """Ranges with and without zero."""
  channels = d.size(1, 3)
  shape = (*d.shape(0, 3), channels)
  d.attrs["num_bits"] = d.integer(2, 16)
  low = d.integer(-4, 2)
  high = low + d.integer(1, 6)
  count = 2 if d.op.endswith("Gradient") else 1
  make = d.array if d.style == "special" else d.tame
  data = [make(shape, np.float32) for _ in range(count)]
  if "Args" in d.op:
    d.attrs.update(min=float(low), max=float(high))
    return data
  ends = (channels,) if "PerChannel" in d.op else ()
  return [*data, np.full(ends, low, np.float32), np.full(ends, high, np.float32)]


@recipe("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4")
def quantize_and_dequantize(d: Draw) -> Sequence[Any]:
  """Given and computed ranges, for each channel or for all."""
  shape, bits = d.shape(1, 3), d.integer(4, 12)
  axis = d.attrs["axis"] = d.pick([-1, d.integer(0, len(shape) - 1)])
  ends = () if axis == -1 else (shape[axis],)
  x = d.array(shape) if d.style == "special" else d.tame(shape)
  low = d.between(ends, d.attrs["T"], -3, -0.5)
  high = d.between(ends, d.attrs["T"], 0.5, 3)
  if not d.attrs["signed_input"]:
    low = np.zeros_like(low)
  if d.op.endswith("V3"):
    return [x, low, high, np.array(bits, np.int32)]
  d.attrs["num_bits"] = bits
  return [x, low, high]
