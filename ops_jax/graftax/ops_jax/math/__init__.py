"""Elementwise functions, comparisons, reductions, running sums, segments and special functions.

- `bessel`: Bessel functions of order 0 and 1, with TensorFlow's derivatives: BesselI0, BesselJ0, BesselY0, BesselK0 and
  so on.
- `bessel_tables`: Chebyshev coefficients for `bessel.py`, computed with 40 digits.
- `binary`: Elementwise functions of two arguments: AddV2, Sub, Mul, RealDiv, FloorMod, Pow, Maximum; and AddN.
- `bitwise`: Bits of integers: BitwiseAnd, Invert, LeftShift, PopulationCount. Dtype and broadcast shape are kept.
- `clip`: Clipping: ClipByValue.
- `comparison`: Comparisons, tests of floating-point classes and boolean logic: Equal, Less, IsNan, LogicalAnd.
- `complex_numbers`: Complex numbers: Complex, Real, Imag, Conj, Angle, ComplexAbs.
- `cumulative`: Running sums, products and log-sum-exps along one axis: Cumsum, Cumprod, CumulativeLogsumexp.
- `histogram`: Counts of values: Bincount, DenseBincount, SparseBincount, RaggedBincount, HistogramFixedWidth.
- `integer_mean`: Means of integers, with sums of 64 bits even if JAX's 64-bit types are off.
- `large_gamma`: The incomplete gamma function for large parameters, where its series has too many terms.
- `reduction`: Reductions over axes: Sum, Prod, Max, Min, Mean, All, Any, EuclideanNorm, ArgMax, ArgMin.
- `segment`: Reductions over rows with the same segment id: SegmentSum, UnsortedSegmentSum and those for Prod, Max, Min,
  Mean.
- `special`: Special functions: Lgamma, Digamma, Igamma, Betainc, Zeta, Erfinv, Ndtri, Expint, FresnelCos, Spence.
- `unary`: Elementwise functions of one argument: Abs, Neg, Sqrt, Exp, Log, Round, Sin, Tanh, Erf and their gradients.
"""

# The modules that register lowerings; the others are helpers.
LOWERINGS = (
  "bessel",
  "binary",
  "bitwise",
  "clip",
  "comparison",
  "complex_numbers",
  "cumulative",
  "histogram",
  "reduction",
  "segment",
  "special",
  "unary",
)
