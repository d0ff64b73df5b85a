"""Pure-JAX functions beyond `jax.lax` that StableHLO and TensorFlow graphs need alike."""
