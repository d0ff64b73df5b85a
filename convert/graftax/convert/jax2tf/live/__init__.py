"""Calls JAX functions from live TensorFlow: eagerly, in a `tf.function`, and in models that TensorFlow saves.

- `conversion`: `convert`, which finds or makes the `LiveFunction` of a call.
- `arguments`, `dtypes`: TensorFlow values as JAX sees them.
- `constants`: `LiveConstant`, a large constant as a tensor.
- `function`: `LiveFunction`, one traced JAX function with the graphs made of it.
- `nodes`: the XlaCallModule node.
- `eager`: calls from eager code.
- `logical_devices`: annotations of tensors for several devices.
"""
