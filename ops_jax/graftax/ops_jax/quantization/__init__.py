"""Quantized numbers and fake quantization.

- `fake_quant`: Fake quantization, whose gradients pass through: FakeQuantWithMinMaxArgs, FakeQuantWithMinMaxVars.
- `quantize`: Conversion between floats and quantized integers: QuantizeV2, Dequantize, UniformQuantize,
  UniformDequantize.
- `quantize_and_dequantize`: Floats rounded to a grid of integers and scaled back: QuantizeAndDequantize in all
  versions.
- `uniform_quantized`: Arithmetic on uniformly quantized integers: UniformQuantizedAdd, UniformQuantizedDot,
  UniformRequantize.
- `uniform_quantized_conv`: Convolution of uniformly quantized integers: UniformQuantizedConvolution.
"""

# The modules that register lowerings; the others are helpers.
LOWERINGS = (
  "fake_quant",
  "quantize",
  "quantize_and_dequantize",
  "uniform_quantized",
  "uniform_quantized_conv",
)
