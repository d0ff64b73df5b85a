"""The known differences from TensorFlow's CPU kernels, each with its reason."""

import dataclasses
import functools
from collections.abc import Callable

import ml_dtypes
import numpy as np

from graftax.testing.generated.case import Case
from graftax.testing.generated.compare import Difference
from graftax.testing.generated.draw import STYLES

__all__ = ["DEVIATIONS", "Deviation", "reason"]


@dataclasses.dataclass(frozen=True, slots=True)
class Deviation:
  """Cases that differ for a known reason.

  Attributes:
    ops: names of the ops, separated by spaces.
    reason: why the lowering does not do what TensorFlow does.
    applies: which cases of the ops the reason covers.
    kinds: kinds of `Difference`, separated by commas.
    max_error: how large `Difference.error` may be.
    rounding: the same if the reason covers only numbers, for which `Difference.undefined` is false.
  """

  ops: str
  reason: str
  applies: Callable[[Case], bool] = lambda case: True
  kinds: str = "value,gradient"
  max_error: float = np.inf
  rounding: float | None = None

  def covers(self, case: Case, difference: Difference) -> bool:
    """Returns whether this is the reason of a difference."""
    if case.id.op not in self.ops.split() or difference.kind not in self.kinds.split(","):
      return False
    if self.rounding is not None and (difference.undefined or difference.error > self.rounding):
      return False
    return difference.error <= self.max_error and self.applies(case)


_gradient = functools.partial(Deviation, kinds="gradient")
_value = functools.partial(Deviation, kinds="value")


def reason(case: Case, difference: Difference) -> str | None:
  """Returns the reason of a difference, or None if it is not in the table."""
  for entry in DEVIATIONS:
    if entry.covers(case, difference):
      return entry.reason
  return None


def _extreme(case: Case) -> bool:
  """Returns whether an input holds NaN, an infinity, or a number that is not 0 and not between 1e-4 and 1e4 in size."""
  for x in case.arrays():
    if _kind(x) in "fc":
      size = np.abs(x.astype(np.complex128 if _kind(x) == "c" else np.float64))
      if not np.all((size == 0) | ((size >= 1e-4) & (size <= 1e4))):
        return True
  return False


def _nonfinite(case: Case) -> bool:
  """Returns whether an input holds NaN or an infinity."""
  return any(_kind(x) in "fc" and not bool(np.all(np.isfinite(x))) for x in case.arrays())


def _nan(case: Case) -> bool:
  return any(_kind(x) in "fc" and bool(np.any(np.isnan(x))) for x in case.arrays())


def _overflows(case: Case) -> bool:
  """Returns whether an input holds NaN, an infinity, or a number whose square is infinite."""
  floats = [x for x in case.arrays() if _kind(x) in "fc"]
  with np.errstate(all="ignore"):
    return any(not bool(np.all(np.isfinite(np.square(x)))) for x in floats)


def _tied(case: Case) -> bool:
  """Returns whether NaN or equal numbers occur in the first input."""
  x = case.arrays()[0].reshape(-1)
  return _nan(case) or np.unique(x).size < x.size


def _complex(case: Case) -> bool:
  return any(_kind(x) == "c" for x in case.arrays())


def _zero_part(case: Case) -> bool:
  """Returns whether a complex input lies on an axis, where functions have branch cuts."""
  return any(_kind(x) == "c" and bool(np.any((x.real == 0) | (x.imag == 0))) for x in case.arrays())


def _any_above(case: Case, size: float) -> bool:
  return any(_kind(x) == "f" and bool(np.any(np.abs(x.astype(np.float64)) > size)) for x in case.arrays())


def _half(case: Case) -> bool:
  return any(_kind(x) == "f" and x.dtype.itemsize == 2 for x in case.arrays())


def _subnormal(case: Case) -> bool:
  floats = [x for x in case.arrays() if _kind(x) == "f"]
  return any(bool(np.any((x != 0) & (np.abs(x.astype(np.float64)) < ml_dtypes.finfo(x.dtype).tiny))) for x in floats)


def _almost_equal(case: Case) -> bool:
  """Returns whether two numbers of the first input differ by less than 1e-5."""
  x = np.unique(case.arrays()[0].astype(np.float64))
  return bool(np.any(np.diff(x[np.isfinite(x)]) < 1e-5))


def _has_infinite_reciprocals(case: Case) -> bool:
  """Returns whether a factor of TensorFlow's gradient of `RGBToHSV` is infinite, in float16."""
  colors = case.inputs["images"]
  if colors.dtype != np.float16:
    return False
  with np.errstate(all="ignore"):
    value = colors.max(-1, keepdims=True)
    saturation = (value - colors.min(-1, keepdims=True)) / value
    gaps = colors - np.roll(colors, 1, -1)
    squares = np.square(np.concatenate([value, saturation, colors, gaps], -1))
    inverse = np.where(squares == 0, 0, 1 / squares)
    factors = [inverse, inverse[..., :1] * inverse[..., 1:2], np.where(gaps == 0, 0, 1 / gaps), 1 / value[value > 0]]
  return any(bool(np.any(np.isinf(factor))) for factor in factors)


def _zero(case: Case) -> bool:
  return any(_kind(x) in "fc" and bool(np.any(x == 0)) for x in case.arrays())


def _kind(x: np.ndarray) -> str:
  return "f" if str(x.dtype) == "bfloat16" else x.dtype.kind


def _cuts(case: Case) -> bool:
  """Returns whether a Fourier transform leaves out a part of its input."""
  lengths = case.inputs["fft_length"].tolist()
  if case.id.op.startswith("IRFFT"):
    lengths[-1] = lengths[-1] // 2 + 1
  return lengths != list(case.inputs["input"].shape[-len(lengths) :])


def _several_diagonals(case: Case) -> bool:
  return np.unique(case.inputs["k"]).size > 1


DEVIATIONS: tuple[Deviation, ...] = (
  # TensorFlow's derivative is not the derivative.
  _gradient(
    "EuclideanNorm MulNoNan SquaredDifference Xdivy Xlog1py Xlogy",
    "TensorFlow's gradient of complex numbers lacks a conjugation; ours is the derivative",
    _complex,
  ),
  _gradient(
    "Cumprod",
    "TensorFlow's gradient is 0 where the input is 0; ours is the derivative",
    lambda case: _zero(case) or _extreme(case),
  ),
  _gradient(
    "CropAndResize",
    "TensorFlow differentiates `nearest` with respect to the boxes as if it were `bilinear`; ours is 0",
    lambda case: case.attrs["method"] == "nearest",
  ),
  _gradient(
    "MatrixDiagPartV2 MatrixDiagPartV3 MatrixDiagV2 MatrixDiagV3 MatrixSolveLs PadV2",
    "TensorFlow has no gradient for `padding_value`, `constant_values` and `l2_regularizer`, and that of MatrixDiagV2 "
    "aligns to the wrong side; ours are the derivatives",
  ),
  _gradient(
    "MatrixSetDiagV2",
    "TensorFlow's gradient with respect to the diagonals aligns several to the wrong side; ours is the derivative",
    _several_diagonals,
  ),
  _gradient("Sign", "TensorFlow's gradient of complex numbers is 0; ours is the derivative of x / |x|", _complex),
  _gradient(
    "RGBToHSV",
    "TensorFlow's gradient of the saturation is 0 where the smallest channel is 0; ours is the derivative",
    _zero,
  ),
  _gradient(
    "RGBToHSV",
    "TensorFlow's gradient multiplies 0 by the reciprocals of the squares of channels, saturation and differences of "
    "channels; in float16 these are infinite for numbers below 0.004, and the product is NaN",
    _has_infinite_reciprocals,
    max_error=0,
  ),
  _gradient(
    "SparseSegmentMean SparseSegmentSqrtN SparseSegmentSum",
    "without indices TensorFlow leaves the gradient uninitialized; ours is 0",
    lambda case: case.inputs["indices"].size == 0,
  ),
  _gradient(
    "Zeta",
    "orders near 0: the derivative is made of zeta(x + 1, q), and x + 1 loses the digits of x",
    lambda case: bool(np.any(np.abs(case.inputs["x"]) < 1e-3)),
    rounding=np.inf,
  ),
  Deviation("TopKV2", "TensorFlow's order of NaN depends on its position", _nan),
  Deviation(
    "Conv2D",
    "if there is no room for a dilated filter, TensorFlow's oneDNN kernel returns its input; ours is empty",
    lambda case: case.attrs["padding"] == "EXPLICIT" and any(d > 1 for d in case.attrs["dilations"]),
    kinds="shape,gradient raised",
  ),
  _gradient(
    "BandedTriangularSolve",
    "TensorFlow's gradient of a matrix of one band lacks the dimension of the bands",
    lambda case: case.inputs["matrix"].shape[-2] == 1,
  ),
  _gradient(
    "LogMatrixDeterminant",
    "TensorFlow's gradient omits that of the sign, which is differentiable for complex matrices",
    _complex,
  ),
  _gradient(
    "Max Min",
    "the gradient of NaN: TensorFlow finds no element equal to it and divides by 0; ours is 0",
    _nan,
    max_error=0,
  ),
  _gradient(
    "Digamma",
    "TensorFlow sums from the argument to 0, which loses all digits for large negative arguments",
    lambda case: bool(np.any(case.inputs["x"] < -1e4)),
  ),
  _gradient(
    "IRFFT IRFFT2D IRFFT3D RFFT RFFT2D RFFT3D",
    "TensorFlow's gradient has the wrong shape or values if the transform cuts its input",
    _cuts,
  ),
  # What TensorFlow leaves undefined.
  Deviation(
    "FusedBatchNormV3",
    "TensorFlow's CPU kernel leaves outputs for the gradient of 3D inference uninitialized; each call returns others",
    lambda case: len(case.attrs["data_format"]) == 5 and not case.attrs["is_training"],
    kinds="value,shape,gradient raised",
  ),
  Deviation(
    "BesselJ0 BesselJ1 BesselY0 BesselY1 FresnelCos FresnelSin",
    "large arguments: TensorFlow reduces the argument of the oscillation with rounding errors",
    lambda case: _any_above(case, 50),
  ),
  _gradient(
    "Dawsn",
    "large arguments: 1 - 2xy, the formula of both, cancels to rounding errors",
    lambda case: _any_above(case, 50),
  ),
  # The order in which a kernel rounds, or looks at its arguments.
  Deviation(
    "ResizeBicubic ResizeBilinear ResizeBilinearGrad",
    "the result of float64 images is float32; TensorFlow adds its gradient in float64",
    rounding=1e-6,
  ),
  _value("ScaleAndTranslate", "elements that nearly cancel have the rounding error of the largest", rounding=1e-6),
  _value(
    "BiasAddGrad MirrorPadGrad ResizeNearestNeighborGrad TanhGrad",
    "both round in 16 bits, in another order; measured against float64, both errors are alike",
    _half,
    rounding=0.05,
  ),
  Deviation(
    "Conv2D Conv2DBackpropFilter Conv2DBackpropInput Conv3D Conv3DBackpropFilterV2 Conv3DBackpropInputV2 "
    "DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput Conv",
    "TensorFlow adds in 16 bits: its error is up to 4 times that of one rounding, measured against float64",
    _half,
    rounding=0.05,
  ),
  Deviation(
    "Conv2D Conv2DBackpropFilter Conv2DBackpropInput Conv3D Conv3DBackpropFilterV2 Conv3DBackpropInputV2 "
    "DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput Conv BatchMatMul "
    "BatchMatMulV2 BatchMatMulV3 MatMul FFT FFT2D FFT3D IFFT IFFT2D IFFT3D RFFT RFFT2D RFFT3D IRFFT IRFFT2D IRFFT3D",
    "sums that cancel: another order of additions rounds otherwise, by less than 5e-7 of the largest element",
    rounding=5e-7,
  ),
  Deviation(
    "CTCLoss",
    "TensorFlow adds logarithms in float32 for float64 inputs: relative error 2e-8, ours is 4e-16",
    lambda case: case.inputs["inputs"].dtype == np.float64,
    rounding=1e-5,
  ),
  Deviation(
    "Abs Acos Acosh Angle Asin Asinh Atan Atanh ComplexAbs Cos Cosh Div DivNoNan EuclideanNorm Exp Expm1 Inv InvGrad "
    "Log Log1p Mul MulNoNan Pow Prod RealDiv Reciprocal ReciprocalGrad Rsqrt RsqrtGrad Sigmoid SigmoidGrad Sign Sin "
    "Sinh Sqrt SqrtGrad Square SquaredDifference Tan Tanh TanhGrad Xdivy Xlog1py Xlogy BatchMatMul BatchMatMulV2 "
    "MatMul Cumprod",
    "complex arithmetic with NaN, infinities or overflow: which parts become NaN depends on the formula",
    lambda case: _complex(case) and _extreme(case),
    max_error=0,
  ),
  Deviation(
    "Acos Acosh Asin Asinh Atanh Log Sqrt Rsqrt Pow",
    "complex numbers on a branch cut: XLA does not tell 0 from -0 there; derivatives at branch points are infinite",
    _zero_part,
  ),
  Deviation(
    "BatchMatMul BatchMatMulV2 BatchMatMulV3 Cross MatMul MirrorPadGrad",
    "NaN, infinities, or sums that overflow on the way: the order of additions decides, or fused multiplication",
    _overflows,
  ),
  Deviation(
    "BatchMatMul BatchMatMulV2 BatchMatMulV3 MatMul",
    "numbers of many magnitudes: the order of additions decides which digits cancel",
    _extreme,
    rounding=1e-5,
  ),
  Deviation("CumulativeLogsumexp", "NaN or infinities: TensorFlow's running maximum loses NaN", _nonfinite),
  Deviation(
    "Log1p",
    "complex numbers near overflow: XLA loses the smaller part",
    lambda case: _complex(case) and _overflows(case),
  ),
  Deviation(
    "MaxPool MaxPool3D MaxPoolV2 MaxPoolWithArgmax",
    "TensorFlow's comparison loses NaN in some windows, and -inf is below its first candidate; ours keep both",
    _nonfinite,
  ),
  _gradient(
    "MaxPool3D",
    "TensorFlow's gradient also goes to numbers that are less than 1e-5 below the largest of their window",
    _almost_equal,
    rounding=np.inf,
  ),
  Deviation(
    "EluGrad Erf Expint InvGrad Lgamma Polygamma Pow ReciprocalGrad RsqrtGrad Selu SeluGrad SigmoidGrad SqrtGrad "
    "TanhGrad Xdivy Xlog1py Zeta BesselY0 BesselY1 Rsqrt Atan2",
    "NaN, infinities, subnormal numbers, or products that overflow on the way: the order of operations decides",
    _extreme,
    max_error=1e-7,
  ),
  Deviation("Atan2", "TensorFlow's vectorized kernel takes subnormal numbers for 0", _subnormal),
  Deviation(
    "ReluGrad Relu6Grad",
    "TensorFlow's CPU kernels multiply by the condition, so NaN and infinities outside the range stay; ours selects",
    _nonfinite,
    max_error=0,
  ),
  _value("Round", "TensorFlow's kernels give 0 for all integers", lambda case: case.inputs["x"].dtype.kind == "i"),
  Deviation("ApproxTopK", "NaN or equal numbers: TensorFlow's partial sort is not stable, and leaves out NaN", _tied),
  _value(
    "ImageProjectiveTransformV2 ImageProjectiveTransformV3",
    "bilinear interpolation of integers is truncated, so rounding errors of the position decide",
    lambda case: case.inputs["images"].dtype.kind in "iu" and case.attrs["interpolation"] == "BILINEAR",
  ),
  Deviation(
    "AdjustSaturation CropAndResize Digamma DivNoNan",
    "NaN or infinities, which TensorFlow multiplies differently",
    _extreme,
    max_error=1e-30,
  ),
  Deviation(
    "NthElement", "TensorFlow's order of NaN depends on its position, and decides which element has the gradient", _nan
  ),
  _gradient(
    "Elu Selu",
    "TensorFlow computes exp(x) - 1, which is 0 for tiny negative x, and gives these the gradient of positive x",
    lambda case: bool(np.any((case.inputs["features"] < 0) & (np.abs(case.inputs["features"]) < 1e-2))),
    rounding=np.inf,
  ),
  Deviation(
    "SqrtGrad Inv Reciprocal RealDiv Div",
    "complex division by 0: which parts become NaN depends on the formula",
    lambda case: _complex(case) and _zero(case),
  ),
  Deviation(
    "BesselY0 BesselY1 Zeta Rsqrt",
    "at a pole TensorFlow has NaN, or the other infinity for a zero of either sign",
    _zero,
  ),
  Deviation(
    "Betainc Igamma Igammac IgammaGradA RandomGammaGrad",
    "parameters of extreme size: TensorFlow's series do not converge, and give NaN or a limit",
    _extreme,
  ),
  Deviation(
    "DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput",
    "TensorFlow's CPU kernels of the gradients ignore dilations",
    lambda case: any(d > 1 for d in case.attrs["dilations"]),
  ),
  Deviation(
    "MatrixSquareRoot",
    "another algorithm: relative errors of float32 are 1e-5 on both sides, against float64",
    lambda case: not _complex(case) or case.inputs["input"].dtype == np.complex64,
    max_error=1e-3,
  ),
  _gradient(
    "Cumprod MatrixDeterminant MatrixSquareRoot SegmentProd TridiagonalSolve UnsortedSegmentProd",
    "TensorFlow's gradient of complex numbers lacks a conjugation; ours is the derivative",
    _complex,
  ),
  _value(
    "FakeQuantWithMinMaxVarsPerChannel",
    "halfway between two steps the rounding of the nudged range decides",
    lambda case: STYLES[case.id.values % len(STYLES)] == "ties",
  ),
  _value(
    "AdjustHue",
    "NaN or an infinity among the arguments: TensorFlow's kernel leaves values from other pixels, or hangs",
    _overflows,
  ),
  _value(
    "FakeQuantWithMinMaxArgsGradient FakeQuantWithMinMaxVarsGradient FakeQuantWithMinMaxVarsPerChannelGradient",
    "TensorFlow multiplies gradients by a mask, so NaN or infinities outside the range stay; ours selects",
    _extreme,
    max_error=0,
  ),
  Deviation(
    "NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3 NonMaxSuppressionV4 NonMaxSuppressionV5",
    "the number of selected boxes depends on values, so the lowering refuses unless the result is padded",
    lambda case: not case.attrs.get("pad_to_max_output_size", False),
    kinds="refused",
  ),
  Deviation(
    "SelfAdjointEigV2 Svd",
    "without vectors TensorFlow's kernel returns uninitialized scalars for them; ours have the static shape, `[0]`",
    lambda case: not case.attrs.get("compute_v", case.attrs.get("compute_uv")),
    kinds="shape,gradient raised",
  ),
  Deviation(
    "Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2 ListDiff",
    "TensorFlow compares subnormal numbers as if they were 0",
    _subnormal,
    kinds="shape,value",
  ),
  Deviation(
    "Softmax LogSoftmax TensorScatterMax TensorScatterMin",
    "TensorFlow's maximum loses NaN, including that of inf - inf, depending on its position",
    _nonfinite,
  ),
  _gradient(
    "CropAndResize",
    "both compute the gradient of a float64 image in float32, rounding in another order",
    lambda case: case.inputs["image"].dtype == np.float64,
    rounding=1e-6,
  ),
)
