"""The custom calls that each release of TensorFlow runs on CPU; renewed by
graftax/tools/codegen/generate_custom_call_targets.py."""

__all__ = ["CUSTOM_CALL_TARGETS"]

_ALL_RELEASES = (
  "ApproxTopK",
  "Eigh",
  "ProductOfElementaryHouseholderReflectors",
  "Qr",
  "SPMDFullToShardShape",
  "SPMDShardToFullShape",
  "Sharding",
  "TopK",
  "shape_assertion",
  "stablehlo.dynamic_reduce_window",
  "stablehlo.dynamic_rng_bit_generator",
  "xla.sdy.FuncResultSharding",
)

_MORE: dict[tuple[int, int], tuple[str, ...]] = {
  (2, 15): (),
  (2, 16): (
    "mhlo.erf",
    "mhlo.topk",
  ),
  (2, 17): (
    "mhlo.erf",
    "mhlo.topk",
  ),
  (2, 18): (
    "LayoutConstraint",
    "mhlo.erf",
    "mhlo.topk",
  ),
  (2, 19): (
    "LayoutConstraint",
    "mhlo.erf",
    "mhlo.topk",
  ),
  (2, 20): (
    "LayoutConstraint",
    "mhlo.erf",
    "mhlo.topk",
  ),
  (2, 21): (
    "LayoutConstraint",
    "mhlo.erf",
    "mhlo.topk",
  ),
}

CUSTOM_CALL_TARGETS = {release: frozenset((*_ALL_RELEASES, *more)) for release, more in _MORE.items()}
