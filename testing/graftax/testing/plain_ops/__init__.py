"""JAX functions as plain TensorFlow ops, compared with JAX.

- `comparison`: runs a function with `lowering="tf_ops"` in TensorFlow and compares its values with JAX's.
- `tfjs_ops`: the ops that the TF.js converter takes.
"""

from graftax.testing.plain_ops.comparison import check_plain_ops

__all__ = ["check_plain_ops"]
