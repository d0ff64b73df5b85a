"""Patterns: recognizes code in modules that has a better form in JAX.

- `inlining`: Inlines calls of small functions, so that loop analysis sees the slices inside them.
- `largest`: The `top_k` that was expanded on export to a sort and a slice.
- `loops`: Analysis of a `while` loop: trip count, invariant carries, scanned slices and stacked results.
- `manual_calls`: The `shard_map` of JAX before 0.7, which is a call between two changes of shape.
- `masked_infinity`: Products with infinity that a select hides, whose gradient would be NaN.
- `old_gpu_solvers`: Custom calls of GPU solvers of JAX before 0.4.36, in the form of their typed FFI.
- `old_lapack`: LAPACK's custom calls of JAX before 0.4.33, in the form of its typed FFI.
- `platform_cases`: Selects the code of one platform in a module of several.
- `regions`: Reducers of a single op, and regions that equal the ones that JAX exports.
- `renaming`: Removes ops whose results are other values under another name.
- `softmax`: Recovers softmax, log_softmax and logsumexp, whose derivatives do not go through the maximum.
- `template_functions`: The functions that `templates` recovers, and what a module must contain for a search.
- `templates`: Recovers functions that were expanded on export or have a derivative of their own: lgamma, relu, expi.
- `triangles`: Selects that keep one triangle of a matrix.
- `trip_count`: Computes the trip count of a `while`.
- `tuple_results`: Gives a custom call that returns a tuple the results that its elements are.
"""
