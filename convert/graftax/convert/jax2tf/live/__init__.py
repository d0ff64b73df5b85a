"""Calls JAX functions from live TensorFlow: eagerly, in a `tf.function`, and in models that TensorFlow saves.

- `conversion.py`: `convert`, which finds or makes the `LiveFunction` of a call.
- `arguments.py`, `dtypes.py`: TensorFlow values as JAX sees them.
- `constants.py`: `LiveConstant`, a large constant as a tensor.
- `function.py`: `LiveFunction`, one traced JAX function with the graphs made of it.
- `nodes.py`: the XlaCallModule node.
- `eager.py`: calls from eager code.
- `logical_devices.py`: annotations of tensors for several devices.
"""
