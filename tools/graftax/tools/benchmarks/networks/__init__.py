"""Networks that Keras wrote, beside the same networks written by hand in flax, on the device that JAX finds.

- `written.py` writes them as SavedModels whose weights are zeros, so that the files are small; needs TensorFlow.
- `by_hand.py` has the same networks in flax.linen. Their layers have the names of Keras, so weights need no table.
- `drawing.py` draws weights for both.
- `on_device.py` compares values, times and compiled instructions, in float32 and bfloat16.
"""
