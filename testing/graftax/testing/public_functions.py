"""Example calls of every public function of `jax.scipy.special`, `jax.lax` and `jax.lax.linalg`."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import jax.scipy.special as special
import numpy as np
from jax import lax

from graftax.testing.pytrees import Leaf, PyTree

__all__ = ["MODULES", "NOT_CALLED", "PublicFunction", "public_functions"]

MODULES = {"special": special, "lax": lax, "linalg": lax.linalg}

# Names without an example, and why.
NOT_CALLED = {
  "types and tables": (
    "lax.AccuracyMode lax.ConvDimensionNumbers lax.ConvGeneralDilatedDimensionNumbers lax.DotAlgorithm"
    " lax.DotAlgorithmPreset lax.DotDimensionNumbers lax.FftType lax.GatherDimensionNumbers lax.GatherScatterMode"
    " lax.Precision lax.PrecisionLike lax.RaggedDotDimensionNumbers lax.RandomAlgorithm lax.RoundingMethod"
    " lax.ScatterDimensionNumbers lax.Tolerance linalg.EigImplementation linalg.SvdAlgorithm"
    " linalg.EighImplementation"
  ),
  "functions of shapes": (
    "lax.broadcast_shapes lax.conv_dimension_numbers lax.conv_general_permutations lax.conv_general_shape_tuple"
    " lax.conv_shape_tuple lax.conv_transpose_shape_tuple lax.dtype lax.padtype_to_pads"
    " lax.reduce_window_shape_tuple"
  ),
  "collectives and what only shard_map, pmap and kernels may contain": (
    "lax.all_gather lax.all_to_all lax.axis_index lax.axis_size lax.pbroadcast lax.pcast lax.pmax lax.pmean lax.pmin"
    " lax.ppermute lax.precv lax.psend lax.pshuffle lax.psum lax.psum_scatter lax.pswapaxes lax.ragged_all_to_all"
    " lax.all_gather_reduced lax.all_gather_invariant lax.preduced lax.pvary lax.unreduced_psum"
    " lax.vary_unreduced_cast lax.stage lax.with_sharding_constraint lax.reduced_vary_cast lax.unreduced_psum_scatter"
    " lax.dce_sink lax.approx_top_k lax.psum_scatter_start"
  ),
  "tokens and the state of a device": "lax.after_all lax.create_token lax.rng_uniform",
  "needs MLIR of a kernel": "lax.scaled_dot",
  "no StableHLO without LAPACK's own calls": "linalg.eig linalg.schur linalg.hessenberg linalg.ormqr",
}


@dataclasses.dataclass(frozen=True, slots=True)
class PublicFunction:
  """A call of a public function.

  `name` is as in "lax.add", `index` counts the calls of one function. Derivatives are taken with respect to the
  floating-point arguments in `args`. `loose` multiplies the tolerance.
  """

  name: str
  function: Callable[..., Any]
  args: tuple[PyTree, ...]
  index: int = 0
  loose: float = 1.0

  @property
  def label(self) -> str:
    return f"{self.name}-{self.index}"


_FOUND: dict[str, list[PublicFunction]] = {}


def _call(name: str, *args: PyTree, through: Callable[..., Any] | None = None, loose: float = 1.0) -> None:
  """Adds a call of the function of this name, or of `through`, which calls it."""
  module, attribute = name.split(".")
  if not hasattr(MODULES[module], attribute):  # in another version of JAX
    return
  function = through or getattr(MODULES[module], attribute)
  arrays = tuple(np.asarray(a, np.float32) if isinstance(a, (float, list)) else a for a in args)
  calls = _FOUND.setdefault(name, [])
  calls.append(PublicFunction(name, function, arrays, len(calls), loose))


def public_functions() -> list[PublicFunction]:
  """Returns all example calls."""
  return [call for calls in _FOUND.values() for call in calls]


def _normal(*shape: int, seed: int = 0) -> np.ndarray:
  return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def _complex(*shape: int) -> np.ndarray:
  return (_normal(*shape, seed=1) + 1j * _normal(*shape, seed=2)).astype(np.complex64)


_INT = np.array([7, -3, 0, 2], np.int32)
_POSITIVE = [0.1, 0.7, 1.0, 2.5, 9.0]
_REAL = [-2.5, -0.6, 0.0, 0.4, 1.0, 3.2]
_UNIT = [0.05, 0.3, 0.5, 0.9]
_M, _N, _V = _normal(4, 5), _normal(4, 5, seed=3), _normal(6)
_SQUARE = _normal(4, 4)
_POSITIVE_DEFINITE = _SQUARE @ _SQUARE.T + 4 * np.eye(4, dtype=np.float32)
_IMAGE, _KERNEL = _normal(2, 3, 8, 7), _normal(4, 3, 3, 2, seed=4)

# jax.scipy.special -----------------------------------------------------------------------------------------------
_call("special.bernoulli", [1.0, 2.0], through=lambda x: x[0] * special.bernoulli(5))
_call("special.bessel_jn", [0.2, 1.0, 4.0], through=lambda z: special.bessel_jn(z, v=3))
for _name in ("beta", "betaln"):
  _call(f"special.{_name}", [0.5, 1.0, 2.5], [0.3, 2.0, 1.0])
_call("special.betainc", [0.5, 1.0, 2.5], [0.3, 2.0, 1.0], [0.1, 0.5, 0.9], loose=5)
for _name in ("boxcox", "boxcox1p"):
  _call(f"special.{_name}", _POSITIVE, [0.5, 0.0, 2.0, -1.0, 1.0])
_call("special.comb", [5.0, 6.5], [2.0, 3.0])
for _name in ("dawsn", "digamma", "erf", "erfc", "erfcx", "expit", "i0", "i0e", "i1", "i1e", "log_ndtr", "ndtr"):
  _call(f"special.{_name}", [*_REAL, 7.5] if _name != "digamma" else [*_POSITIVE, -0.6])
_call("special.log_ndtr", [-40.0, -12.0, -6.0, 0.0, 4.0, 6.0])
_call("special.entr", [0.0, *_POSITIVE, -1.0])
_call("special.erfcinv", [0.05, 0.4, 1.0, 1.3, 1.95])
_call("special.erfinv", [-0.95, -0.4, 0.0, 0.3, 0.999])
for _name in ("exp1", "expi"):
  _call(f"special.{_name}", [*_POSITIVE, 40.0])
_call("special.expi", [-3.0, -0.5, 0.5, 3.0])
_call("special.expn", np.array([1, 2, 3, 2, 5], np.int32), _POSITIVE)
_call("special.expn", np.array([0, 2, 60, 3], np.int32), [0.5, 3.0, 2.0, 80.0])
for _name in ("factorial", "gamma", "gammaln", "loggamma"):
  _call(f"special.{_name}", [0.1, 0.7, 1.0, 2.5, 9.0])
_call("special.gamma", [-1.5, -0.3, 0.3])
_call("special.fresnel", [-4.0, -1.0, 0.0, 0.5, 2.0, 30.0])
for _name in ("gammainc", "gammaincc"):
  _call(f"special.{_name}", [0.5, 1.0, 2.5, 4.0], [0.3, 2.0, 1.0, 6.0], loose=5)
_call("special.gammasgn", [-1.5, -0.3, 0.3])
_call("special.hyp1f1", [0.5, 1.0, 2.0], [1.5, 3.0, 2.5], [0.3, -1.0, 2.0], loose=5)
_call("special.hyp2f1", [0.5, 1.0, 2.0], [1.5, 0.4, 0.5], [2.0, 3.1, 2.7], [0.3, -0.4, 0.6], loose=5)
for _name in ("kl_div", "rel_entr"):
  _call(f"special.{_name}", [0.0, 0.5, 1.0, 2.0], [1.0, 0.3, 2.0, 2.0])
_call("special.logit", [0.0, *_UNIT, 1.0])
_call("special.logsumexp", _M, through=lambda x: special.logsumexp(x, axis=1))
_call("special.logsumexp", _M, _N, through=lambda x, b: special.logsumexp(x, axis=1, b=b, return_sign=True))
_call("special.logsumexp", np.array([[-np.inf, -np.inf], [1, 2], [np.inf, 1]], np.float32),
      through=lambda x: special.logsumexp(x, axis=1))  # fmt: skip
for _name in ("softmax", "log_softmax"):
  _call(f"special.{_name}", _M)
  _call(f"special.{_name}", _M, through=lambda x, f=_name: getattr(special, f)(x, axis=0))
_call("special.multigammaln", [2.5, 4.0], through=lambda a: special.multigammaln(a, 3))
_call("special.ndtri", [1e-6, 0.01, 0.3, 0.5, 0.95, 1 - 1e-6])
_call("special.owens_t", [0.5, -1.0, 2.0, 0.0], [0.3, 2.0, -0.7, 1.0], loose=5)
_call("special.poch", [0.5, 2.0, 3.5], [1.0, 2.5, 0.0])
_call("special.polygamma", np.array([1, 2, 3], np.int32), [0.5, 1.5, 4.0])
_call("special.polygamma", [0.5, 1.5, 4.0], through=lambda x: special.polygamma(2, x))
_call("special.polygamma", [0.5, 1.5, 4.0], through=lambda x: special.polygamma(0, x))
_call("special.sici", [-5.0, -0.5, 0.5, 2.0, 5.0, 30.0])
_call("special.spence", [0.1, 0.5, 1.0, 1.7, 3.0])
_call("special.sph_harm_y", [0.5, 1.0], [0.3, 2.0],
      through=lambda t, p: special.sph_harm_y(jnp.array([2, 3]), jnp.array([1, -2]), t, p, n_max=3))  # fmt: skip
_call("special.wofz", np.array([0.3 + 0.4j, -2 + 1j, 8 - 0.5j, 0j], np.complex64))
_call("special.xlogy", [0.0, 0.5, 2.0, 0.0], [0.7, 2.0, 0.3, 0.0])
_call("special.xlog1py", [0.0, 0.5, 2.0, 0.0], [0.7, 2.0, 0.3, -1.0])
_call("special.zeta", [1.5, 2.0, 4.0], [1.0, 0.5, 3.0])
_call("special.zeta", [1.5, 2.0, 4.0], through=lambda x: special.zeta(x, 2.0))

# jax.lax, elementwise --------------------------------------------------------------------------------------------
for _name in (
  "abs asinh atan bessel_i0e bessel_i1e cbrt ceil cos cosh erf erfc exp exp2 expm1 floor logistic neg round sign sin"
  " sinh square tan tanh one_minus_square"
).split():
  _call(f"lax.{_name}", _REAL)
for _name in "acosh digamma lgamma log log1p log2 reciprocal rsqrt sqrt".split():
  _call(f"lax.{_name}", [1.0, 1.2, 2.5, 9.0])
for _name in "acos asin atanh erf_inv".split():
  _call(f"lax.{_name}", [-0.9, -0.3, 0.0, 0.4])
for _name in (
  "abs acos acosh asin asinh atan atanh conj cos cosh exp exp2 expm1 imag log log1p logistic neg real reciprocal rsqrt"
  " sign sin sinh sqrt square tan tanh"
).split():
  _call(f"lax.{_name}", _complex(5))
for _name in "add atan2 div max min mul nextafter rem sub".split():
  _call(f"lax.{_name}", [-2.5, 0.6, 1.0, 3.0], [0.7, 2.0, 1.0, -2.0])
for _name in "add div mul pow sub".split():
  _call(f"lax.{_name}", _complex(5), _complex(5)[::-1].copy())
_call("lax.pow", [0.0, 0.5, 2.0, 1.5, 0.0], [2.0, 0.0, -1.5, 3.0, 1.0])
_call("lax.pow", [-1.5, 0.0, 2.0], np.array([3, 0, 2], np.int32))
_call("lax.complex", _V, _V[::-1].copy())
for _name in "eq ge gt le lt ne".split():
  _call(f"lax.{_name}", [1.0, 2.0], [2.0, 2.0])
for _name in "bitwise_and bitwise_or bitwise_xor mulhi rem max min".split():
  _call(f"lax.{_name}", _INT, np.array([2, 5, 3, -1], np.int32))
for _name in "shift_left shift_right_arithmetic shift_right_logical".split():
  _call(f"lax.{_name}", _INT, np.array([1, 2, 0, 3], np.int32))
for _name in "bitwise_not clz population_count".split():
  _call(f"lax.{_name}", _INT)
_call("lax.betainc", [0.5, 1.0, 2.5], [0.3, 2.0, 1.0], [0.1, 0.5, 0.9], loose=5)
for _name in ("igamma", "igammac", "igamma_grad_a", "random_gamma_grad"):
  _call(f"lax.{_name}", [0.5, 1.0, 2.5, 4.0], [0.3, 2.0, 1.0, 6.0], loose=5)
_call("lax.polygamma", [1.0, 2.0, 3.0], [0.5, 1.5, 4.0])
_call("lax.zeta", [1.5, 2.0, 4.0], [1.0, 0.5, 3.0])
_call("lax.polynomial", _REAL, through=lambda x: lax.polynomial(x, (1.0, -2.0, 0.5)))
_call("lax.integer_pow", _REAL, through=lambda x: lax.integer_pow(x, 3))
_call("lax.integer_pow", [-1.5, 2.0], through=lambda x: lax.integer_pow(x, -2))
_call("lax.is_finite", _REAL)
_call("lax.clamp", 0.0, [-1.0, 0.0, 0.3, 1.0, 2.0], 1.0)
_call("lax.reduce_precision", _REAL, through=lambda x: lax.reduce_precision(x, 5, 7))
_call("lax.convert_element_type", _REAL, through=lambda x: lax.convert_element_type(x, jnp.bfloat16), loose=100)
_call("lax.convert_element_type", _REAL, through=lambda x: lax.convert_element_type(x, np.int32))
_call("lax.bitcast_convert_type", _REAL, through=lambda x: lax.bitcast_convert_type(x, np.int32))
_call("lax.stop_gradient", _V, through=lambda x: lax.stop_gradient(jnp.floor(x)) * x)
_call("lax.optimization_barrier", _V)

# jax.lax, shapes and indices -------------------------------------------------------------------------------------
_call("lax.broadcast", _V, through=lambda x: lax.broadcast(x, (2, 3)))
_call("lax.broadcast_in_dim", _V, through=lambda x: lax.broadcast_in_dim(x, (2, 6, 3), (1,)))
_call("lax.broadcast_like", _V, through=lambda x: lax.broadcast_like(x, jnp.ones((6,))))
_call("lax.broadcast_to_rank", _V, through=lambda x: lax.broadcast_to_rank(x, 3))
_call("lax.broadcasted_iota", _V, through=lambda x: x * lax.broadcasted_iota(np.float32, (2, 6), 1))
_call("lax.iota", _V, through=lambda x: x * lax.iota(np.float32, 6))
_call("lax.collapse", _IMAGE, through=lambda x: lax.collapse(x, 1, 3))
_call("lax.concatenate", _M, _N, through=lambda x, y: lax.concatenate([x, y], 1))
_call("lax.stack", _M, _N, through=lambda x, y: lax.stack([x, y], 1))
_call("lax.unstack", _M, through=lambda x: lax.unstack(x, 1))
_call("lax.dynamic_index_in_dim", _M, np.int32(2), through=lambda x, i: lax.dynamic_index_in_dim(x, i, 1))
_call("lax.index_in_dim", _M, through=lambda x: lax.index_in_dim(x, 2, 1))
_call("lax.dynamic_slice", _M, np.int32(2), through=lambda x, i: lax.dynamic_slice(x, (i, i), (2, 3)))
_call("lax.dynamic_slice_in_dim", _M, np.int32(2), through=lambda x, i: lax.dynamic_slice_in_dim(x, i, 2))
_call("lax.dynamic_update_index_in_dim", _M, _V[:5], np.int32(2),
      through=lambda x, u, i: lax.dynamic_update_index_in_dim(x, u, i, 0))  # fmt: skip
_call("lax.dynamic_update_slice", _M, _N[:2, :3], np.int32(2),
      through=lambda x, u, i: lax.dynamic_update_slice(x, u, (i, i)))  # fmt: skip
_call("lax.dynamic_update_slice_in_dim", _M, _N[:2], np.int32(1),
      through=lambda x, u, i: lax.dynamic_update_slice_in_dim(x, u, i, 0))  # fmt: skip
_call("lax.empty", _V, through=lambda x: x + 0 * jnp.nan_to_num(lax.empty((6,), np.float32)))
_call("lax.expand_dims", _M, through=lambda x: lax.expand_dims(x, (0, 2)))
_call("lax.full", _V, through=lambda x: lax.full((3,), x[0]))
_call("lax.full_like", _V, through=lambda x: lax.full_like(x, 2.0) * x)
_call("lax.index_take", _M, np.array([1, 3, 1], np.int32), through=lambda x, i: lax.index_take(x, i[None], (0,)))
_call("lax.pad", _M, 0.5, through=lambda x, v: lax.pad(x, v, ((1, 2, 1), (-1, 0, 0))))
_call("lax.reshape", _M, through=lambda x: lax.reshape(x, (2, 10)))
_call("lax.rev", _M, through=lambda x: lax.rev(x, (1,)))
_call("lax.select", np.array([True, False]), [1.0, 2.0], [3.0, 4.0])
_call("lax.select_n", np.array([0, 1, 2], np.int32), [1.0, 2.0, 3.0], [3.0, 4.0, 5.0], [6.0, 7.0, 8.0])
_call("lax.shape_as_value", _M, through=lambda x: x * lax.shape_as_value(x.shape)[0])
_call("lax.slice", _M, through=lambda x: lax.slice(x, (1, 0), (4, 5), (2, 3)))
_call("lax.slice_in_dim", _M, through=lambda x: lax.slice_in_dim(x, 1, 3))
_call("lax.split", _M, through=lambda x: lax.split(x, (1, 2, 2), 1))
_call("lax.squeeze", _M[:1], through=lambda x: lax.squeeze(x, (0,)))
_call("lax.tile", _M, through=lambda x: lax.tile(x, (2, 3)))
_call("lax.transpose", _IMAGE, through=lambda x: lax.transpose(x, (2, 0, 3, 1)))
_ROWS = np.array([[1], [3], [1], [9]], np.int32)
_call("lax.gather", _M, _ROWS, through=lambda x, i: lax.gather(
      x, i, lax.GatherDimensionNumbers((1,), (0,), (0,)), (1, 5), mode="fill"))  # fmt: skip
for _name in ("scatter", "scatter_add", "scatter_max", "scatter_min", "scatter_mul", "scatter_sub"):
  _indices = np.array([[1], [3], [0], [9]], np.int32) if _name in ("scatter", "scatter_mul") else _ROWS
  _call(f"lax.{_name}", _M, _indices, _N, through=lambda x, i, u, f=_name: getattr(lax, f)(
        x, i, u, lax.ScatterDimensionNumbers((1,), (0,), (0,)),
        unique_indices=f in ("scatter", "scatter_mul")))  # fmt: skip
_call("lax.scatter_apply", _M, np.array([[1], [3], [0], [9]], np.int32), through=lambda x, i: lax.scatter_apply(
      x, i, lambda v: v * v, lax.ScatterDimensionNumbers((1,), (0,), (0,)), update_shape=(4, 5),
      unique_indices=True))  # fmt: skip

# jax.lax, reductions, sorting, products --------------------------------------------------------------------------
for _name in ("argmax", "argmin"):
  _call(f"lax.{_name}", _M, through=lambda x, f=_name: getattr(lax, f)(x, 1, np.int32))
for _name in ("approx_max_k", "approx_min_k", "top_k"):
  _call(f"lax.{_name}", _M, through=lambda x, f=_name: getattr(lax, f)(x, 2))
for _name in ("cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum"):
  for _reverse in (False, True):
    _call(f"lax.{_name}", _M, through=lambda x, f=_name, r=_reverse: getattr(lax, f)(x, 1, r))
_call("lax.cummax", np.array([1, 1, 0, 1, 2, 2], np.float32))
_call("lax.cumprod", np.array([1, 2, 0, 3, 0, 2], np.float32))
for _name in ("reduce_max", "reduce_min", "reduce_prod", "reduce_sum"):
  _call(f"lax.{_name}", _M, through=lambda x, f=_name: getattr(lax, f)(x, (1,)))
  _call(f"lax.{_name}", np.array([[1, 1, 0], [0, 2, 0]], np.float32),
        through=lambda x, f=_name: getattr(lax, f)(x, (1,)))  # fmt: skip
for _name in ("reduce_and", "reduce_or", "reduce_xor"):
  _call(f"lax.{_name}", _INT, through=lambda x, f=_name: getattr(lax, f)(x, (0,)))
for _function, _init in ((lax.add, 0.0), (lax.max, -np.inf), (lax.mul, 1.0), (lax.min, np.inf)):
  _call("lax.reduce", _M, through=lambda x, f=_function, i=_init: lax.reduce(x, np.float32(i), f, (1,)))
  _call("lax.reduce_window", _M, through=lambda x, f=_function, i=_init: lax.reduce_window(
        x, np.float32(i), f, (2, 2), (1, 2), "SAME"))  # fmt: skip
_call("lax.sort", _M)
_call("lax.sort", _M.round(), _N, through=lambda x, y: lax.sort((x, y), num_keys=1))
_call("lax.sort_key_val", _M, _N)
_call("lax.dot", _M, _N, through=lambda x, y: lax.dot(x, y.T))
_call("lax.batch_matmul", _normal(2, 3, 4), _normal(2, 4, 5))
_call("lax.dot_general", _normal(2, 3, 4), _normal(2, 5, 4),
      through=lambda x, y: lax.dot_general(x, y, (((2,), (2,)), ((0,), (0,)))))  # fmt: skip
_call("lax.ragged_dot", _normal(6, 3), _normal(2, 3, 4), np.array([2, 4], np.int32))
_call("lax.ragged_dot_general", _normal(6, 3), _normal(2, 3, 4), np.array([2, 4], np.int32),
      through=lambda x, y, s: lax.ragged_dot_general(
        x, y, s, lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))))  # fmt: skip
_call("lax.conv", _IMAGE, _KERNEL, through=lambda x, k: lax.conv(x, k, (2, 1), "SAME"))
_call("lax.conv_with_general_padding", _IMAGE, _KERNEL,
      through=lambda x, k: lax.conv_with_general_padding(x, k, (1, 2), ((1, 0), (2, 1)), (2, 1), (1, 2)))  # fmt: skip
_call("lax.conv_general_dilated", _IMAGE, _normal(6, 1, 3, 2), through=lambda x, k: lax.conv_general_dilated(
      x, k, (2, 1), "VALID", feature_group_count=3))  # fmt: skip
_call("lax.conv_general_dilated_patches", _IMAGE,
      through=lambda x: lax.conv_general_dilated_patches(x, (3, 2), (2, 1), "SAME"))  # fmt: skip
_call("lax.conv_general_dilated_local", _IMAGE[:, :, :4, :3], _normal(4, 12, 3, 2),
      through=lambda x, k: lax.conv_general_dilated_local(x, k, (1, 1), "VALID", (2, 2)))  # fmt: skip
_call("lax.conv_transpose", _normal(1, 4, 5, 2), _normal(3, 3, 2, 3),
      through=lambda x, k: lax.conv_transpose(x, k, (2, 2), "SAME"))  # fmt: skip
_call("lax.fft", _complex(4, 6), through=lambda x: lax.fft(x, lax.FftType.FFT, (6,)))
_call("lax.fft", _M[:, :4], through=lambda x: lax.fft(x, lax.FftType.RFFT, (4,)))
_call("lax.fft", _complex(4, 4), through=lambda x: lax.fft(x, lax.FftType.IRFFT, (6,)))

# jax.lax, control flow -------------------------------------------------------------------------------------------
_call("lax.associative_scan", _M, through=lambda x: lax.associative_scan(jnp.multiply, x, axis=1))
_call("lax.composite", _V, through=lambda x: lax.composite(lambda x: jnp.sin(x) * x, "examples.sine")(x) + x)
_call("lax.cond", _V, through=lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x))
_call("lax.switch", np.int32(1), _V, through=lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tan], x))
_call("lax.custom_linear_solve", _POSITIVE_DEFINITE, _V[:4], through=lambda a, b: lax.custom_linear_solve(
      lambda x: a @ x, b, lambda f, b: jnp.linalg.solve(a, b), lambda f, b: jnp.linalg.solve(a.T, b)))  # fmt: skip
_call("lax.custom_root", [1.0, 2.0], through=lambda a: lax.custom_root(
      lambda x: x**3 - a, a, lambda f, x: lax.fori_loop(0, 40, lambda i, x: x - f(x) / (3 * x**2), x),
      lambda g, y: y / g(jnp.ones_like(y))))  # fmt: skip
_call("lax.fori_loop", _V, through=lambda x: lax.fori_loop(0, 3, lambda i, x: jnp.sin(x) * i, x))
_call("lax.map", _M, through=lambda x: lax.map(lambda row: jnp.sin(row) @ row, x))
_call("lax.scan", _V, through=lambda x: lax.scan(lambda c, a: (c * a, c + a), jnp.float32(1), x))
_call("lax.while_loop", _V, through=lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * x),
      (0, x))[1])  # fmt: skip
_call("lax.platform_dependent", _V, through=lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.sin))
_call("lax.rng_bit_generator", np.arange(4, dtype=np.uint32),
      through=lambda k: lax.rng_bit_generator(k, (4,), algorithm=lax.RandomAlgorithm.RNG_THREE_FRY))  # fmt: skip


# jax.lax.linalg --------------------------------------------------------------------------------------------------
def _symmetric(x: Leaf) -> Leaf:
  return (x + x.mT) / 2


_call("linalg.cholesky", _POSITIVE_DEFINITE, loose=5)
_call("linalg.cholesky_update", np.linalg.cholesky(_POSITIVE_DEFINITE), _V[:4])
_call("linalg.eigh", _POSITIVE_DEFINITE, through=lambda x: lax.linalg.eigh(_symmetric(x))[1], loose=10)
_call("linalg.householder_product", _normal(5, 3), _V[:3] * 0.3)
_call("linalg.lu", _SQUARE, through=lambda x: lax.linalg.lu(x)[0], loose=10)
_call("linalg.lu_pivots_to_permutation", np.array([1, 3, 2], np.int32),
      through=lambda p: lax.linalg.lu_pivots_to_permutation(p, 4))  # fmt: skip
_call("linalg.qdwh", _POSITIVE_DEFINITE, through=lambda x: lax.linalg.qdwh(x)[0])
_call("linalg.qr", _normal(5, 3), through=lambda x: lax.linalg.qr(x, full_matrices=False), loose=10)
_call("linalg.svd", _normal(5, 3), through=lambda x: lax.linalg.svd(x, full_matrices=False)[1], loose=10)
_call("linalg.symmetric_product", _normal(4, 3), _POSITIVE_DEFINITE)
_call("linalg.triangular_solve", _POSITIVE_DEFINITE, _normal(4, 2),
      through=lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True, transpose_a=True))  # fmt: skip
_call("linalg.tridiagonal", _POSITIVE_DEFINITE, loose=10)
_call("linalg.tridiagonal_solve", [0.0, 1.0, 1.0], [4.0, 5.0, 6.0], [1.0, 1.0, 0.0], _normal(3, 2))
