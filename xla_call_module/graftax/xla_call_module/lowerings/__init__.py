"""Lowerings of StableHLO and CHLO ops. Importing this package registers all of them.

- `asynchronous`: Asynchronous ops, which run at once: async_start, async_done.
- `batch_norm`: Batch normalization: inference, training, and its gradient.
- `chlo`: CHLO ops that are not elementwise: scan, ragged_dot, top_k.
- `chlo_broadcast`: CHLO ops that broadcast their operands: broadcast_add, broadcast_compare, broadcast_select.
- `composites`: composite, by the name of the composite or through its decomposition.
- `contraction`: Matrix products and convolutions: dot_general, dot, einsum, convolution.
- `control_flow`: Calls, branches and loops: call, if, case, while, map.
- `custom_call_targets`: Custom calls of TF functions, annotations, top k, and elementwise functions of old exporters.
- `custom_calls`: custom_call: finds the rule of a target, or calls it through `jax.ffi`.
- `devices`: Device numbers and collectives, for a single device: replica_id, partition_id, all_reduce, all_gather.
- `dynamism`: Ops whose shapes are operands: dynamic_reshape, dynamic_iota, dynamic_pad; and shape assertions.
- `elementwise`: Elementwise arithmetic, comparison, conversion and bitwise ops.
- `fft`: Discrete Fourier transforms: fft.
- `gather_scatter`: gather, scatter.
- `linalg`: Decompositions and solvers, as ops and as custom calls of CPU, GPU and TPU, except QR.
- `qr`: QR decomposition and products of Householder reflectors.
- `random`: Random numbers: rng_bit_generator, rng.
- `reduce`: reduce: monoids, argmax and argmin, and other reducers.
- `shape`: Ops that create or rearrange elements: constant, iota, broadcast_in_dim, reshape, slice, pad, tuple.
- `sharding`: Sharding annotations of Shardy and of GSPMD.
- `shifted`: Functions such as softmax, whose results do not depend on a value that they subtract.
- `sort`: sort with any comparator.
- `sparse`: Products with sparse matrices.
- `unsupported`: Ops that never lift, with the reason: host transfers, quantization.
- `window`: reduce_window, select_and_scatter.
"""

from graftax.xla_call_module.lowerings import (  # noqa: F401
  asynchronous,
  batch_norm,
  chlo,
  chlo_broadcast,
  composites,
  contraction,
  control_flow,
  custom_call_targets,
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
  shifted,
  sort,
  sparse,
  unsupported,
  window,
)
