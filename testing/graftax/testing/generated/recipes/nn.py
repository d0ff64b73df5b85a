"""Recipes of neural network ops."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from graftax.testing.generated.draw import Draw
from graftax.testing.generated.recipes.registry import recipe, recipes, recipes_of_shapes


def _conv_attrs(d: Draw, rank: int, explicit: bool = True) -> tuple[list[int], list[int]]:
  """Sets padding, strides and dilations (one of the two is 1) of a channels-last op, and returns the latter two."""
  strides, dilations = [1] * rank, [1] * rank
  target = strides if d.chance(0.6) else dilations
  target[:] = [d.integer(1, 2)] * rank
  d.attrs["padding"] = d.pick(["SAME", "VALID"])
  d.attrs["strides"], d.attrs["dilations"] = [1, *strides, 1], [1, *dilations, 1]
  d.attrs["data_format"] = "NHWC" if rank == 2 else "NDHWC"
  if rank == 2 and explicit and d.chance(0.2):
    d.attrs["padding"] = "EXPLICIT"
    d.attrs["explicit_paddings"] = [0, 0, *(d.integer(0, 1) for _ in range(4)), 0, 0]
  if "use_cudnn_on_gpu" in d.attrs:
    d.attrs["use_cudnn_on_gpu"] = True
  return strides, dilations


def _conv_output(d: Draw, sizes: Sequence[int], filters: Sequence[int]) -> list[int]:
  """Returns the spatial sizes of a convolution's result."""
  strides, dilations = d.attrs["strides"][1:-1], d.attrs["dilations"][1:-1]
  pads = d.attrs.get("explicit_paddings") or [0] * (2 * len(sizes) + 4)
  result = []
  for i, (n, f, s, r) in enumerate(zip(sizes, filters, strides, dilations, strict=True)):
    extent = (f - 1) * r + 1
    if d.attrs["padding"] == "SAME":
      result.append(-(-n // s))
    else:
      explicit = pads[2 * i + 2] + pads[2 * i + 3] if d.attrs["padding"] == "EXPLICIT" else 0
      result.append(max(-(-(n + explicit - extent + 1) // s), 0))
  return result


@recipe("Conv2D", "Conv3D", "DepthwiseConv2dNative", "Conv")
def conv(d: Draw) -> Sequence[Any]:
  """Images and filters, grouped in some cases."""
  rank = 3 if d.op == "Conv3D" else 2
  _conv_attrs(d, rank)
  if d.op == "Conv":
    d.attrs.update(data_format="CHANNELS_LAST", batch_dims=1, groups=1)
  filters, depth = [d.integer(1, 3) for _ in range(rank)], d.integer(1, 2)
  groups = d.integer(1, 2) if d.op == "Conv2D" else 1
  sizes = [f + d.integer(0, 3) for f in filters]
  x = d.tame((d.size(0, 2), *sizes, depth * groups))
  return [x, d.tame((*filters, depth, groups * d.integer(1, 2)))]


@recipe(
  "Conv2DBackpropFilter Conv2DBackpropInput Conv3DBackpropFilterV2 Conv3DBackpropInputV2 "
  "DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput"
)
def conv_backprop(d: Draw) -> Sequence[Any]:
  """Shapes that belong to one convolution."""
  rank = 3 if d.op.startswith("Conv3D") else 2
  _conv_attrs(d, rank)
  filters, depth, multiplier = [d.integer(1, 3) for _ in range(rank)], d.integer(1, 2), d.integer(1, 2)
  sizes = [f * 2 + d.integer(0, 3) for f in filters]
  shape, weights = (d.size(1, 2), *sizes, depth), (*filters, depth, multiplier)
  channels = depth * multiplier if d.op.startswith("Depthwise") else multiplier
  cotangent = d.tame((shape[0], *_conv_output(d, sizes, filters), channels))
  if "BackpropInput" in d.op:
    kind = d.attrs.get("Tshape", np.int32)
    return [np.array(shape, kind), d.tame(weights), cotangent]
  return [d.tame(shape), np.array(weights, np.int32), cotangent]


def _window(d: Draw, rank: int) -> list[int]:
  """Sets the attributes of a pooling op and returns the spatial sizes of its input."""
  kernel, strides = [d.integer(1, 3) for _ in range(rank)], [d.integer(1, 3) for _ in range(rank)]
  d.attrs.update(ksize=[1, *kernel, 1], strides=[1, *strides, 1], padding=d.pick(["SAME", "VALID"]))
  if "data_format" in d.signature.attrs:
    d.attrs["data_format"] = "NHWC" if rank == 2 else "NDHWC"
  return [k + d.integer(0, 3) for k in kernel]


@recipe("AvgPool", "AvgPool3D", "MaxPool", "MaxPool3D", "MaxPoolWithArgmax", "MaxPoolV2")
def pool(d: Draw) -> Sequence[Any]:
  """Windows with and without overlap; ties in a quarter of the cases."""
  sizes = _window(d, 3 if "3D" in d.op else 2)
  make = d.tame if d.op.startswith("Avg") else d.array
  x = make((d.size(0, 2), *sizes, d.integer(1, 2)))
  if d.op == "MaxPoolV2":
    return [x, np.array(d.attrs.pop("ksize"), np.int32), np.array(d.attrs.pop("strides"), np.int32)]
  return [x]


@recipe("AvgPoolGrad", "AvgPool3DGrad")
def avg_pool_grad(d: Draw) -> Sequence[Any]:
  sizes = _window(d, 3 if "3D" in d.op else 2)
  d.attrs["dilations"] = [1] * (len(sizes) + 2)
  pooled = _conv_output(d, sizes, d.attrs["ksize"][1:-1])
  del d.attrs["dilations"]
  batch, depth = d.size(1, 2), d.integer(1, 2)
  return [np.array([batch, *sizes, depth], np.int32), d.tame((batch, *pooled, depth))]


@recipe("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def batch_norm(d: Draw) -> Sequence[Any]:
  training = d.attrs["is_training"]
  depth, data_format = d.size(1, 3), d.attrs["data_format"]
  rank = 5 if "D" in data_format else 4
  sizes = [d.size(1, 3) for _ in range(rank - 1)]
  shape = [sizes[0], depth, *sizes[1:]] if data_format.startswith("NC") else [*sizes, depth]
  d.attrs.update(epsilon=d.pick([1e-3, 0.1]), exponential_avg_factor=d.pick([1.0, 0.5]) if training else 1.0)
  kind = d.dtype(d.signature.inputs[1])
  given = () if training and d.attrs["exponential_avg_factor"] == 1.0 else (depth,)
  given = given or (0,)
  return [
    d.tame(shape),
    d.tame((depth,), kind),
    d.tame((depth,), kind),
    d.tame(given, kind),
    d.between(given, kind, 0.5, 2),
  ]


@recipe("LRN")
def lrn(d: Draw) -> Sequence[Any]:
  """Radii up to beyond the depth."""
  d.attrs.update(
    depth_radius=d.integer(0, 5), bias=d.pick([1.0, 2.0]), alpha=d.pick([1.0, 0.1]), beta=d.pick([0.5, 0.7])
  )
  return [d.tame((d.size(), d.size(), d.size(), d.size(1, 6)))]


@recipe("Dilation2D")
def dilation(d: Draw) -> Sequence[Any]:
  filters, rate = [d.integer(1, 3), d.integer(1, 3)], d.integer(1, 2)
  d.attrs.update(strides=[1, d.integer(1, 2), d.integer(1, 2), 1], rates=[1, rate, rate, 1])
  depth = d.integer(1, 2)
  x = d.tame((d.size(1, 2), *((f - 1) * rate + 1 + d.integer(0, 2) for f in filters), depth))
  return [x, d.tame((*filters, depth))]


@recipe("DataFormatDimMap", "DataFormatVecPermute")
def data_format(d: Draw) -> Sequence[Any]:
  """Axes, or one number for each."""
  source, target = d.pick([("NHWC", "NCHW"), ("NCHW", "NHWC"), ("NHWC", "HWNC")])
  d.attrs.update(src_format=source, dst_format=target)
  if d.op == "DataFormatDimMap":
    return [d.between(d.shape(0, 2), d.attrs["T"], -4, 3)]
  return [d.array(d.pick([(4,), (4, 2)]))]


@recipe("CTCLoss")
def ctc_loss(d: Draw) -> Sequence[Any]:
  """Labels shorter than the sequences."""
  frames, batch, classes = d.integer(4, 6), d.integer(1, 3), d.integer(3, 5)
  counts = [d.integer(0, 2) for _ in range(batch)]
  places = [[i, j] for i, n in enumerate(counts) for j in range(n)]
  values = np.array([d.integer(0, classes - 2) for _ in places], np.int32)
  lengths = np.full(batch, frames, np.int32)
  return [d.tame((frames, batch, classes)), np.array(places, np.int64).reshape(-1, 2), values, lengths]


@recipe("LSTMBlockCell")
def lstm_cell(d: Draw) -> Sequence[Any]:
  batch, width, units, dtype = d.size(1, 3), d.size(1, 3), d.size(1, 3), d.attrs["T"]
  d.attrs.update(forget_bias=1.0, cell_clip=d.pick([3.0, 0.5, -1.0]))
  state, gate = (batch, units), (units,)
  shapes = [(batch, width), state, state, (width + units, 4 * units), gate, gate, gate, (4 * units,)]
  return [d.tame(shape, dtype) for shape in shapes]


@recipe("GRUBlockCell")
def gru_cell(d: Draw) -> Sequence[Any]:
  batch, width, units = d.size(1, 3), d.size(1, 3), d.size(1, 3)
  shapes = [(batch, width), (batch, units), (width + units, 2 * units), (width + units, units), (2 * units,), (units,)]
  return [d.tame(shape) for shape in shapes]


@recipe("CTCBeamSearchDecoder", "CTCGreedyDecoder")
def ctc_decoder(d: Draw) -> Sequence[Any]:
  """Sequences of different lengths; no ties, of which each search finds another one.

  The search adds probabilities in single precision, those of float64 logits too.
  """
  d.attrs["T"] = np.dtype(np.float32)
  time, batch, classes = d.integer(2, 8), d.size(1, 3), d.integer(2, 5)
  if d.op == "CTCGreedyDecoder":
    d.attrs["blank_index"] = d.integer(-classes, classes - 1)
  else:
    d.attrs.update(beam_width=d.integer(1, 8), top_paths=1)
  logits = d.between((time, batch, classes), d.attrs["T"], -2, 2)
  return [logits, d.between((batch,), np.int32, 0, time)]


recipes_of_shapes(
  {
    "BiasAdd BiasAddV1": lambda d, s: [d.array(s), d.array((s[1 if d.attrs.get("data_format") == "NCHW" else -1],))],
    "BiasAddGrad": lambda d, s: [d.tame(s)],
  },
  (2, 5),
)
recipes_of_shapes({"Softmax LogSoftmax": lambda d, s: [d.array(s)]}, (1, 4))
recipes(
  {
    "SoftmaxCrossEntropyWithLogits": lambda d: [
      d.tame(shape := (d.size(), d.size(1, 4))),
      d.between(shape, d.attrs["T"], 0, 1),
    ],
    "SparseSoftmaxCrossEntropyWithLogits": lambda d: [
      d.tame(shape := (d.size(), d.size(1, 4))),
      d.indices(shape[:1], d.attrs["Tlabels"], shape[1]),
    ],
  }
)
