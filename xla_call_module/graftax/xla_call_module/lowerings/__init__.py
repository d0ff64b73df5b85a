"""The lowerings of StableHLO and CHLO ops; importing this package registers all of them."""

from graftax.xla_call_module.lowerings import (  # noqa: F401
  chlo,
  composites,
  contraction,
  control_flow,
  custom_calls,
  dynamism,
  elementwise,
  gather_scatter,
  linalg,
  misc,
  random,
  reduce,
  shape,
  sharding,
  sort,
  window,
)
