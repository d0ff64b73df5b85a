"""The lowerings of StableHLO and CHLO ops; importing this package registers all of them."""

from graftax.xla_call_module.lowerings import (  # noqa: F401
  batch_norm,
  chlo,
  composites,
  contraction,
  control_flow,
  custom_calls,
  devices,
  dynamism,
  elementwise,
  fft,
  gather_scatter,
  linalg,
  qr,
  random,
  reduce,
  shape,
  sharding,
  sort,
  unsupported,
  window,
)
