"""`JaxModule` and `ExportManager`: JAX functions with parameters and serving signatures, as SavedModels.

The names, arguments and behaviours are those of orbax.export. TensorFlow is used if it is imported or needed.

- `batching`: Functions of TensorFlow with default inputs, and inputs that are repeated to one batch size.
- `callable_signatures`: `CallableSignatures`: the signatures of a SavedModel as functions, which use the defaults of
  their inputs.
- `dtensor`: DTensor, TensorFlow's arrays over several devices: the mesh that exported parameters are placed on.
- `dtensor_arrays`: Converts arrays of JAX over several devices to DTensors.
- `export_manager`: `ExportManager`: a `JaxModule` with serving signatures, as a SavedModel.
- `input_specs`: Input signatures: nested shapes and dtypes, with names and defaults.
- `jax_module`: `JaxModule`: JAX functions with parameters, as a module of TensorFlow.
- `live_methods`: The variables and functions of a `JaxModule` in TensorFlow.
- `module_methods`: The methods of a `JaxModule`: JAX functions with their options, and the checks of what a user
  passes.
- `module_parameters`: The parameters of a `JaxModule` as variables: names, arrays, what TensorFlow trains, and the way
  back.
- `module_sharding`: How the parameters of a `JaxModule` are spread over devices.
- `serving_config`: `ServingConfig`: a serving signature of a `JaxModule`.
- `serving_programs`: The signatures of a `JaxModule` as programs, which are written without TensorFlow.
"""
