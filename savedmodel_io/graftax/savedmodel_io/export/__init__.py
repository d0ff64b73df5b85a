"""`JaxModule` and `ExportManager`: JAX functions with parameters and serving signatures, as SavedModels.

The names, arguments and behaviours are those of orbax.export. TensorFlow is used if it is imported or needed.

- `jax_module.py`: `JaxModule`, made of `module_parameters.py`, `module_methods.py` and `module_sharding.py`.
- `live_methods.py`: its variables and functions in TensorFlow.
- `export_manager.py`: `ExportManager`, with `serving_config.py`, `input_specs.py` and, for writing without TensorFlow,
  `serving_programs.py`.
- `batching.py`: functions of TensorFlow with defaults, and with inputs repeated to one batch size.
- `callable_signatures.py`: signatures of a SavedModel in a session of TensorFlow 1.
- `dtensor.py`, `dtensor_arrays.py`: arrays over several devices as DTensors.
- `_tensorflow.py`: the imports of TensorFlow.
"""
