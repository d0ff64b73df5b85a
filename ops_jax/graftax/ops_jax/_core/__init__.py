"""The machinery around the lowerings, and helpers that many of them share.

Values and errors:

- `values`: the value model. numpy arrays are known while tracing, JAX arrays are traced.
- `jax_versions`: what differs between the versions of JAX.
- `known`: runs shape arithmetic in numpy, so that known inputs give known results.
- `errors`: errors that lowerings and kernels raise.

From an op's name to a lowering:

- `registry`: `register` and `lowering`. A function's Python signature is the schema of its op.
- `lowering_modules`: which module has the lowering of an op; the others are not imported for it.
- `context`: the interface of a lowering to its program: variables, other functions, randomness, options.
- `options`: `LoweringOptions`.
- `unsupported_reasons`: reasons why ops have no lowering, and what to do instead.

From a node to a kernel, which `binding` puts together:

- `stages`: the call of the lowering, and the grouping of list inputs before it.
- `static_inputs`: decodes inputs that must be known while tracing.
- `result_sizes`: compares the sizes of results with the limits of the call.
- `precision`: promotes inputs whose precision differs from the graph's.

Helpers of lowerings:

- `axes`: checks axes and counts negative ones from the end.
- `derivatives`: functions with TensorFlow's derivative, if JAX's differs.
- `fast_dispatch`: calls `jax.lax` directly for operands of equal shape and dtype, which traces faster than `jax.numpy`.
- `integer_facts`: facts about traced integers, such as their bounds.
- `numeric`: rounding, and the limits of dtypes.
"""
