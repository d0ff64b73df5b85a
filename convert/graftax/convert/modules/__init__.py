"""Converted functions as modules of flax, equinox, haiku and Keras. Each library is imported when it is asked for.

- `flax_nnx`: `nnx_module`, for flax.nnx.
- `equinox`: `equinox_module`, with its state.
- `haiku`: `haiku_module`, for `hk.transform_with_state`.
- `keras`: `keras_layer`, for Keras 3 on JAX.
- `variables`: what these have in common: values by name, and calls that return what the function assigned.

All take what a conversion returned, `fn` and `params`. What TensorFlow trains becomes the library's parameters. All
other variables, such as the statistics of batch normalization, become the library's state, and get the values that the
function assigns. A function that is converted from a trace for training assigns them; `eval_fn` is the trace for
inference.
Arguments that the conversion fixed, such as `training=True`, are left out of calls, so that one call fits both traces.
"""

from graftax.convert.modules.equinox import equinox_module
from graftax.convert.modules.flax_nnx import nnx_module
from graftax.convert.modules.haiku import haiku_module
from graftax.convert.modules.keras import keras_layer

__all__ = ["equinox_module", "haiku_module", "keras_layer", "nnx_module"]
