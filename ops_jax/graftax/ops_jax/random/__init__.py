"""Random numbers: from JAX keys where TensorFlow promises no values, bit for bit where it does."""

# The modules that register lowerings. The other modules hold what these share.
LOWERINGS = (
  "generator",
  "stateful",
  "stateless",
  "stateless_distributions",
  "stochastic_cast",
)
