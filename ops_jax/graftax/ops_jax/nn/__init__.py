"""Neural networks: convolution, pooling, normalization, activations, losses and recurrent cells."""

# The modules that register lowerings. The other modules hold what these share.
LOWERINGS = (
  "activations",
  "avg_pooling",
  "batch_norm",
  "bias",
  "conv",
  "conv_gradients",
  "ctc",
  "data_format",
  "depthwise",
  "dilation",
  "fractional_pooling",
  "fused",
  "losses",
  "lrn",
  "max_pooling",
  "rnn_cells",
  "space_depth",
)
