"""64-bit integers for programs that run while `jax_enable_x64` is off.

JAX then truncates int64 and uint64 to 32 bits. Programs that need the upper bits (random seeds, keys and generator
states, hashes, constants beyond 32 bits) get them as `Int64Pair`, a pytree of two uint32 arrays.

- `pairs`: `Int64Pair`, an array of 64-bit integers as two uint32 arrays, and conversions from and to it.
- `arithmetic`: Arithmetic of 64-bit integers given as two uint32 arrays `(low, high)`, numpy or JAX.
- `dispatch`: Chooses between an op's ordinary lowering, its lowering for pairs, and one run per half.
- `arithmetic_ops`: Arithmetic and reductions of 64-bit integers, if an input is an `Int64Pair`.
- `bitwise_ops`: Bitwise logic and shifts of 64-bit integers, if an input is an `Int64Pair`.
- `cast_ops`: Conversions to and from 64-bit integers while `jax_enable_x64` is off.
- `comparison_ops`: Comparisons, extrema and clipping of 64-bit integers, if an input is an `Int64Pair`.

Why not 64-bit JAX arrays, made under `jax.enable_x64(True)`? In JAX 0.10.2 such arrays do survive the boundaries of
`jit`, `scan`, `while_loop`, `cond`, `vmap`, `grad` and `jax.export` while `jax_enable_x64` is off. They are not safe
there, for three reasons (`pairs_test.py` checks the first two, so a change in JAX will be noticed):

- `jax.numpy` functions outside the scope truncate them, with no more than a UserWarning: `x + 0`,
  `jnp.where(c, x, 0)`, `x.sum()` and even `x.astype(jnp.int64)` return int32. One op, or one line of a user's code,
  outside the scope gives a wrong number.
- Rules that JAX applies after the scope has ended use 32-bit types. Lowering `argmax`, and batching
  `dynamic_update_slice` or integer `dot_general` in `vmap(jit(f))`, raise TypeErrors; `jax.random.bits(..., uint64)`
  in a jitted function returns other numbers, as uint32. Control flow and tensor lists use such ops.
- A `jax.ShapeDtypeStruct` of int64 is traced as int32, so a function that takes a generator's state could not be
  exported.
"""

# The modules that register lowerings; the others are helpers.
LOWERINGS = ("arithmetic_ops", "bitwise_ops", "cast_ops", "comparison_ops")
