"""Plans for functions: the nodes that run, their order, and the ops that prevent a conversion.

- `compiled_ops`: Has TensorFlow compile ops without a lowering to StableHLO, each for itself: the option
  `fallback="tensorflow"`.
- `control_flow_v1`: Replaces TF1 control flow before the other stages see a program.
- `custom_gradient`: Attaches the derivatives of `tf.custom_gradient` functions to the IdentityN nodes that name them.
- `effects`: Finds the nodes of a function that must run: those that results need, and those whose effects outlive the
  call.
- `parameter_uses`: Finds the nodes that read a function's parameters, in the function itself or in those that it calls.
- `plan`: Plans a function: a flat list of steps over numbered slots, which each call runs in order.
- `preflight`: Finds everything that prevents a conversion, before anything runs.
- `size_bounds`: Checks the names in the option `max_sizes`, so that a misspelled one does not go unnoticed.
"""
