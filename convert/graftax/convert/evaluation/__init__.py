"""Evaluation of plans.

- `evaluate`: Runs a plan: one pass over its steps, under whatever JAX transform is tracing.
- `folding`: Runs steps on known values, so that their results are known too.
- `frame`: The evaluator as seen by lowerings: the implementation of `graftax.ops_jax.Context`.
- `known_values`: Computes values that depend on constants alone, during the conversion.
- `loop_lengths`: What is known of the length of a `While` loop before it runs: a number, a symbolic size, or a bound.
- `loop_walk`: Finds the iterations of a `While` loop before it runs, or at least a bound for them.
- `symbolic_loops`: Finds the number of iterations of a `While` loop that counts up to a symbolic size, such as the
  length of a sequence.
- `state`: The state of one call: values of variables by name, and the variables that the call has replaced.
"""
