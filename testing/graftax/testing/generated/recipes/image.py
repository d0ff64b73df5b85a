"""Recipes of image ops."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from graftax.testing.generated.draw import Draw
from graftax.testing.generated.recipes.registry import recipe, recipes


@recipe("AdjustHue", "AdjustSaturation")
def adjust(d: Draw) -> Sequence[Any]:
  """Colors (gray in the style with ties) and a factor."""
  shape = (*d.shape(0, 3), 3)
  x = d.array(shape) if d.style == "special" else d.between(shape, d.attrs["T"], 0, 1)
  factor = d.array((), np.float32) if d.style == "special" else d.between((), np.float32, -1, 1)
  return [np.round(x * 2) / x.dtype.type(2) if d.style == "ties" else x, np.abs(factor) if "Sat" in d.op else factor]


@recipe("RGBToHSV", "HSVToRGB")
def color(d: Draw) -> Sequence[Any]:
  """Colors in the unit cube; tied channels in the style with ties."""
  x = d.between((*d.shape(0, 3), 3), d.attrs["T"], 0, 1)
  return [np.round(x * 2) / x.dtype.type(2) if d.style == "ties" else x]


@recipe("ResizeArea", "ResizeBicubic", "ResizeBilinear", "ResizeNearestNeighbor")
def resize(d: Draw) -> Sequence[Any]:
  """Larger and smaller, from size 1 on."""
  _corners(d)
  x = d.array if d.op == "ResizeNearestNeighbor" else d.tame
  return [x((d.size(1, 2), d.size(1, 5), d.size(1, 5), d.size(1, 2))), _sizes(d)]


def _sizes(d: Draw) -> np.ndarray:
  return np.array([d.integer(1, 6), d.integer(1, 6)], np.int32)


def _corners(d: Draw) -> None:
  if d.attrs.get("half_pixel_centers"):
    d.attrs["align_corners"] = False


@recipe("ResizeBicubicGrad", "ResizeBilinearGrad", "ResizeNearestNeighborGrad")
def resize_grad(d: Draw) -> Sequence[Any]:
  _corners(d)
  batch, depth = d.size(1, 2), d.size(1, 2)
  grads = d.tame((batch, d.integer(1, 6), d.integer(1, 6), depth), d.dtype(d.signature.inputs[0]))
  if d.op == "ResizeNearestNeighborGrad":
    return [grads, _sizes(d)]
  return [grads, d.tame((batch, d.integer(1, 5), d.integer(1, 5), depth))]


@recipe("CropAndResize")
def crop_and_resize(d: Draw) -> Sequence[Any]:
  """Boxes inside and outside, flipped ones too, and some whose edges are those of the image."""
  batch, boxes = d.size(1, 2), d.size(0, 3)
  d.attrs["extrapolation_value"] = d.pick([0.0, 7.5])
  x = d.tame((batch, d.size(1, 5), d.size(1, 5), d.size(1, 2)))
  corners = d.between((boxes, 4), np.float32, -0.3, 1.3)
  if d.style == "ties":
    corners = np.round(2 * corners) / np.float32(2)
  return [x, corners, d.indices((boxes,), np.int32, batch), _sizes(d)]


@recipe("ExtractImagePatches")
def patches(d: Draw) -> Sequence[Any]:
  kernel, rate = d.integer(1, 3), d.integer(1, 2)
  stride = d.integer(1, 3)
  d.attrs.update(ksizes=[1, kernel, kernel, 1], strides=[1, stride, stride, 1], rates=[1, rate, rate, 1])
  return [d.array((d.size(1, 2), d.integer(1, 6), d.integer(1, 6), d.size(1, 2)))]


@recipe("ExtractVolumePatches")
def volume_patches(d: Draw) -> Sequence[Any]:
  kernel, stride = d.integer(1, 2), d.integer(1, 2)
  d.attrs.update(ksizes=[1, kernel, kernel, kernel, 1], strides=[1, stride, stride, stride, 1])
  return [d.array((d.size(1, 2), *(d.integer(1, 4) for _ in range(3)), d.size(1, 2)))]


@recipe("NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3", "NonMaxSuppressionV4", "NonMaxSuppressionV5")
def non_max_suppression(d: Draw) -> Sequence[Any]:
  """Overlapping boxes with distinct scores."""
  count = d.size(0, 5)
  kinds = [d.dtype(arg) for arg in d.signature.inputs]
  boxes = d.between((count, 4), kinds[0], 0, 1)
  scores = (np.array(d.permutation(count)) / 8 + 0.1).astype(kinds[1])
  rest = [d.between((), kind, 0.1, 0.6) for kind in kinds[3:5]]
  sigma = [np.array(d.pick([0.0, 0.5]), kinds[5])] if len(kinds) > 5 else []
  if d.op == "NonMaxSuppression":
    d.attrs["iou_threshold"] = d.pick([0.1, 0.5, 1.0])
  return [boxes, scores, np.array(d.integer(0, 5), np.int32), *rest, *sigma]


@recipe("DrawBoundingBoxes", "DrawBoundingBoxesV2")
def draw_boxes(d: Draw) -> Sequence[Any]:
  """Boxes inside and partly outside."""
  batch, depth, boxes = d.size(1, 2), d.pick([1, 3, 4]), d.size(0, 3)
  corners = np.sort(d.between((batch, boxes, 2, 2), np.float32, -0.2, 1.2), 2).reshape(batch, boxes, 4)
  x = d.tame((batch, d.integer(1, 6), d.integer(1, 6), depth))
  colors = [d.between((d.integer(1, 3), 4), np.float32, 0, 1)] if d.op.endswith("V2") else []
  return [x, corners, *colors]


@recipe("ImageProjectiveTransformV2", "ImageProjectiveTransformV3")
def projective(d: Draw) -> Sequence[Any]:
  """Near-identity transforms, with every fill mode of the op."""
  modes = ["CONSTANT", "REFLECT", "WRAP"] + ["NEAREST"] * d.op.endswith("V3")
  d.attrs.update(interpolation=d.pick(["BILINEAR", "NEAREST"]), fill_mode=d.pick(modes))
  batch = d.size(1, 2)
  x = d.tame((batch, d.integer(1, 5), d.integer(1, 5), d.size(1, 2)), d.attrs["dtype"])
  transform = d.between((d.pick([1, batch]), 8), np.float32, -0.4, 0.4) + np.array([1, 0, 0, 0, 1, 0, 0, 0], np.float32)
  transform[:, 6:] *= 0.1
  return [x, transform, _sizes(d), *([d.tame((), np.float32)] if d.op.endswith("V3") else [])]


@recipe("ScaleAndTranslate")
def scale_and_translate(d: Draw) -> Sequence[Any]:
  kernels = "lanczos1 lanczos3 lanczos5 gaussian box triangle keyscubic mitchellcubic"
  d.attrs["kernel_type"] = d.pick(kernels.split())
  x = d.tame((d.size(1, 2), d.size(1, 5), d.size(1, 5), d.size(1, 2)))
  return [x, _sizes(d), d.between((2,), np.float32, 0.5, 2), d.between((2,), np.float32, -1, 1)]


@recipe("ExtractGlimpse", "ExtractGlimpseV2")
def glimpse(d: Draw) -> Sequence[Any]:
  """Windows within images, partly outside and beyond; without noise, whose numbers differ."""
  d.attrs.update(centered=d.chance(0.5), normalized=d.chance(0.5), uniform_noise=False, noise="zero")
  batch = d.size(1, 2)
  x = d.tame((batch, d.integer(1, 6), d.integer(1, 6), d.size(1, 2)), np.float32)
  return [x, _sizes(d), d.between((batch, 2), np.float32, -1.5, 1.5)]


recipes({"AdjustContrastv2": lambda d: [d.tame((*d.shape(0, 2), d.size(1), d.size(1), 3)), d.array((), np.float32)]})
