"""Calls TensorFlow functions from JAX: `call_tf`.

- `call_tf`: the function that users call.
- `calls`: decides for each call between TensorFlow itself and the converted function.
- `arguments`: the flat arguments of a call, as arrays that JAX and TensorFlow have.
- `eager`: runs TensorFlow op by op, on the memory of JAX's arrays.
- `converted`: the function as a JAX function.
- `flat_function`: the function with flat tensors as arguments and results, which TensorFlow traces.
- `known_integers`: integers that decide shapes, known while JAX traces.
- `mutable_tables`: refuses tables whose changes compiled code would not see.
- `host_reads`: a JAX primitive that reads TensorFlow variables on the host whenever compiled code runs.
- `variable_reads`: the current values of variables, in compiled code too.
- `declared_results`: compares results with `output_shape_dtype`.
"""
