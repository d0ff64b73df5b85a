"""Quantized numbers and fake quantization."""

# The modules that register lowerings. The other modules hold what these share.
LOWERINGS = (
  "fake_quant",
  "quantize",
  "quantize_and_dequantize",
  "uniform_quantized",
  "uniform_quantized_conv",
)
