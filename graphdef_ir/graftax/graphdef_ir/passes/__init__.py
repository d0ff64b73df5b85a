"""Rewrites of functions. Each returns a new function that computes the same values.

- `attribute_binding`: Replaces a function's attribute placeholders by the values of a call.
- `call_inlining`: Replaces calls by the bodies of the functions they call.
- `control_flow_raising`: Replaces TensorFlow 1's control flow (Switch, Merge, Enter, Exit, NextIteration, LoopCond) by
  If and While nodes.
- `device_implementations`: Replaces functions for any device by their implementations for CPUs.
- `dilated_convolutions`: Replaces convolutions of spatial blocks by convolutions with dilations.
- `pruning`: Removes nodes that no result needs.

The package `graftax.graphdef_ir` exports the passes.
"""
