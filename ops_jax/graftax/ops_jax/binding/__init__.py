"""Kernels: what a lowering needs to run for one node of a graph.

This room is above `bounded` and `int64_pairs`, because a kernel calls their rules; lowerings do not import it.

- `attributes`: Decodes a node's attributes to the annotated types of its lowering's keyword-only parameters.
- `kernel`: Kernels: lowerings bound to one node each, with attributes decoded and stages chosen once per node.
- `no_gradients`: Stops gradients at ops that TensorFlow declares not to be differentiable.
- `symbolic_inputs`: Passes symbolic dimensions among the inputs of a node to the lowering, or turns them into traced
  arrays.
- `text_inputs`: Strings among a node's inputs: JAX has none, so the op is computed at once, with all of its inputs
  known.
"""
