"""64-bit integers for programs that run while `jax_enable_x64` is off.

JAX then truncates int64 and uint64 to 32 bits. Programs that need the upper bits (random seeds, keys and generator
states, hashes, constants beyond 32 bits) get them as `Int64Pair`, a pytree of two uint32 arrays.

- `pairs`: the type and its conversions.
- `arithmetic`: addition, multiplication, division and shifts of 64-bit integers, given as two uint32 arrays.
- `dispatch`: how a kernel chooses between an op's ordinary lowering and the one for pairs.
- `arithmetic_ops`, `bitwise_ops`, `comparison_ops`, `cast_ops`: lowerings of TensorFlow's integer ops on pairs.

Why not 64-bit JAX arrays, made under `jax.enable_x64(True)`? In JAX 0.10.2 such arrays do survive the boundaries of
`jit`, `scan`, `while_loop`, `cond`, `vmap`, `grad` and `jax.export` while `jax_enable_x64` is off. They are not safe
there, for three reasons (`pairs_test.py` checks the first two, so that we notice when this changes):

- `jax.numpy` functions outside the scope truncate them, with no more than a UserWarning: `x + 0`,
  `jnp.where(c, x, 0)`, `x.sum()` and even `x.astype(jnp.int64)` return int32. One op, or one line of a user's code,
  outside the scope gives a wrong number.
- Rules that JAX applies after the scope was left use 32-bit types. Lowering `argmax`, and batching
  `dynamic_update_slice` or integer `dot_general` in `vmap(jit(f))`, raise TypeErrors; `jax.random.bits(..., uint64)`
  in a jitted function returns other numbers, as uint32. Control flow and tensor lists are made of such ops.
- A `jax.ShapeDtypeStruct` of int64 is traced as int32, so a function that takes a generator's state could not be
  exported.
"""

# The modules that register lowerings. The other modules hold what these share.
LOWERINGS = ("arithmetic_ops", "bitwise_ops", "cast_ops", "comparison_ops")
