"""Reads live TensorFlow functions as a `Program`. (`jax2tf/live` goes the other way: JAX functions in live TensorFlow.)

- `arguments`: Prepares example arguments for tracing: arrays become specs, so that their values do not become
  constants.
- `captures`: Reads the captures of a ConcreteFunction: variables, constants and tables.
- `function`: Makes a `Program` of a live TensorFlow function: traces it, then reads its graph, captures and structure.
- `gradients`: Traces the custom gradients of live functions, which TensorFlow holds as Python functions.
- `graph_variables`: Reads variables that are created by nodes of a live program, as in a restored TF1 model.
- `structures`: Reads the nested inputs and outputs of a ConcreteFunction as `InputStructure` and `OutputStructure`.
- `tables`: Reads the contents of live lookup tables.
- `variables`: Collects the variables of a live program: a handle for each resource, and values by variable name.
"""
