"""The Xla* ops of tf2xla, and XlaCallModule."""

# The modules that register lowerings. The other modules hold what these share.
LOWERINGS = (
  "call_module",
  "conv",
  "dot",
  "gather",
  "random_bits",
  "reduce",
  "replicas",
  "slicing",
  "sort",
  "split",
  "window",
)
