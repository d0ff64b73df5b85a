"""Recipes of ops that work element by element."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from graftax.testing.generated.draw import Draw
from graftax.testing.generated.recipes.registry import recipe, recipes, recipes_of_shapes

_UNARY = """
  Abs Acos Acosh Angle Asin Asinh Atan Atanh BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1 BesselK0 BesselK0e
  BesselK1 BesselK1e BesselY0 BesselY1 Ceil ComplexAbs Conj Copy Cos Cosh Dawsn DeepCopy Digamma Elu Erf Erfc Erfinv Exp
  Expint Expm1 Floor FresnelCos FresnelSin GuaranteeConst Identity Imag Inv Invert IsFinite IsInf IsNan L2Loss LeakyRelu
  Lgamma Log Log1p LogicalNot Ndtri Neg OnesLike PopulationCount PreventGradient Rank Real Reciprocal Relu Relu6 Rint
  Round Rsqrt Selu Shape Sigmoid Sign Sin Sinh Size Snapshot Softplus Softsign Spence Sqrt Square StopGradient Tan Tanh
  ZerosLike DebugGradientIdentity
"""

_BROADCASTING = """
  Add AddV2 Atan2 BitwiseAnd BitwiseOr BitwiseXor Div DivNoNan Equal FloorDiv FloorMod Greater GreaterEqual Igamma
  IgammaGradA Igammac Less LessEqual LogicalAnd LogicalOr Maximum Minimum Mod Mul MulNoNan NextAfter NotEqual Polygamma
  Pow RandomGammaGrad RealDiv SquaredDifference Sub TruncateDiv TruncateMod Xdivy Xlog1py Xlogy Zeta
"""

_SAME_SHAPE = """
  ApproximateEqual EluGrad InvGrad LeakyReluGrad ReciprocalGrad Relu6Grad ReluGrad RsqrtGrad SeluGrad SigmoidGrad
  SoftplusGrad SoftsignGrad SqrtGrad TanhGrad
"""


@recipe(*_UNARY.split())
def unary(d: Draw) -> Sequence[Any]:
  """One array of any shape."""
  if {"T", "Tout"} <= d.signature.attrs.keys():
    d.attrs["Tout"] = np.dtype(np.float32 if d.attrs["T"] == np.complex64 else np.float64)
  return [d.array(d.shape(), d.dtype(d.signature.inputs[0]))]


@recipe(*_BROADCASTING.split())
def broadcasting(d: Draw) -> Sequence[Any]:
  """Two arrays whose shapes broadcast."""
  d.attrs.pop("incompatible_shape_error", None)
  shapes = [shape := d.shape(), d.broadcastable(shape)]
  order = d.permutation(2)
  return [d.array(shapes[i], d.dtype(arg)) for i, arg in zip(order, d.signature.inputs, strict=True)]


@recipe(*_SAME_SHAPE.split())
def same_shape(d: Draw) -> Sequence[Any]:
  """Several arrays of one shape."""
  shape = d.shape()
  if d.op == "ApproximateEqual":
    d.attrs["tolerance"] = d.pick([1e-5, 0.5, 2.0])
  return [d.array(shape, d.dtype(arg)) for arg in d.signature.inputs]


@recipe("Betainc")
def betainc(d: Draw) -> Sequence[Any]:
  """Three arrays, some of them scalars; inside the domain in the plain style."""
  shape = d.shape()
  shapes = [shape if d.chance(0.7) else () for _ in range(3)]
  dtype = d.attrs["T"]
  if d.style == "plain":
    return [*(d.between(s, dtype, 0.1, 5) for s in shapes[:2]), d.between(shapes[2], dtype, 0, 1)]
  return [d.array(s, dtype) for s in shapes]


@recipe("ClipByValue")
def clip(d: Draw) -> Sequence[Any]:
  """Values and bounds, which are scalars or of the values' shape."""
  shape, dtype = d.shape(), d.attrs["T"]
  if d.chance(0.5):
    return [d.array(shape, dtype), d.array((), dtype), d.array((), dtype)]
  return [d.array(shape, dtype), d.array(shape, dtype), d.array(shape if d.chance(0.5) else (), dtype)]


@recipe("Bucketize")
def bucketize(d: Draw) -> Sequence[Any]:
  """Values and sorted boundaries with ties."""
  d.attrs["boundaries"] = sorted(d.pick([-2.0, -0.5, 0.0, 1.0, 2.0, 3.5]) for _ in range(d.integer(0, 4)))
  return [d.array(d.shape())]


@recipe("Cast")
def cast(d: Draw) -> Sequence[Any]:
  """Any dtype; numbers that the target holds, because conversion of others is undefined in TensorFlow."""
  target = np.dtype(d.attrs["DstT"])
  x = d.array(d.shape(), d.attrs["SrcT"])
  if target.kind in "iu" and x.dtype.kind not in "iub":
    x = d.between(x.shape, x.dtype, 0, 100)
  return [x]


@recipe("Bitcast")
def bitcast(d: Draw) -> Sequence[Any]:
  """Dtypes of any widths."""
  source, target = np.dtype(d.attrs["T"]), np.dtype(d.attrs["type"])
  shape = d.shape()
  if target.itemsize > source.itemsize:
    shape = (*shape, target.itemsize // source.itemsize)
  return [d.array(shape, source)]


@recipe("Complex")
def complex_number(d: Draw) -> Sequence[Any]:
  """Real and imaginary parts that broadcast."""
  d.attrs["Tout"] = np.dtype(np.complex64 if d.attrs["T"] == np.float32 else np.complex128)
  shape = d.shape()
  return [d.array(shape), d.array(d.broadcastable(shape))]


@recipe("CheckNumerics", "CheckNumericsV2")
def check_numerics(d: Draw) -> Sequence[Any]:
  """Finite numbers."""
  d.attrs["message"] = "not finite"
  return [d.tame(d.shape())]


@recipe("EnsureShape")
def ensure_shape(d: Draw) -> Sequence[Any]:
  """A shape with unknown dimensions."""
  shape = d.shape()
  d.attrs["shape"] = [None if d.chance(0.4) else n for n in shape]
  return [d.array(shape)]


recipes_of_shapes(
  {
    "LeftShift RightShift": lambda d, s: [
      d.array(s),
      d.between(d.broadcastable(s), d.attrs["T"], 0, d.attrs["T"].itemsize * 8 - 1),
    ],
    "AddN": lambda d, s: [[d.array(s) for _ in range(d.integer(1, 4))]],
    "Select": lambda d, s: [d.array(d.pick([s, (), s[:1]]), bool), d.array(s), d.array(s)],
    "SelectV2": lambda d, s: [d.array(d.broadcastable(s), bool), d.array(s), d.array(d.broadcastable(s))],
  }
)
recipes(
  {
    "Cross": lambda d: [d.array(shape := (*d.shape(0, 3), 3)), d.array(shape)],
    "IdentityN": lambda d: [[d.array(d.shape(), d.pick([np.float32, np.int32, bool])) for _ in range(d.integer(1, 3))]],
    "LinSpace": lambda d: [d.array(()), d.array(()), np.array(d.integer(1, 7), d.attrs["Tidx"])],
  }
)
