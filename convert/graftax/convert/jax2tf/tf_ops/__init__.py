"""Turns a traced JAX function into plain TensorFlow ops, for consumers that do not run StableHLO.

- `plain_ops`: the function of this name, which makes the nodes of a `TracedFunction`.
- `interpreter`: walks a jaxpr and calls the rule of each equation.
- `registry`: `@rule("cumsum")`, and the list of primitives that have a rule.
- `refusals`: collects what has no form, for one error.
- `builder`: adds nodes, constants and functions to a graph; fills in attributes.
- `tensors`: `Tensor`, a value of the JAX function in the graph.
- `lifted_primitives`: primitives without a rule, by what they lower to.
- `symbols`: symbolic dimensions.
- `size_checks`: nodes that check the sizes of arguments.
- `cpu_kernels`: which dtypes TensorFlow's CPU kernels accept.
- `missing_ops`: which ops the converters to ONNX, TFLite and TensorFlow.js do not have.
- `complex_parts`: complex numbers as real and imaginary parts, for consumers that lack them or ops on them.
- `words`: 32-bit integers for consumers without uint32, or without ops on bits.
- `rules`: the rules, one module for each domain.
"""
