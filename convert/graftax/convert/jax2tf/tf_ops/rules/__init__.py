"""The rules, one module for each domain; `registry.py` imports them all.

- `elementwise`: functions of one or two floats, rounding and powers.
- `integers`: division, shifts and bits.
- `comparisons`: comparisons, logic and selection.
- `casts`: conversions between dtypes.
- `shaping`: reshape, broadcast, transpose, pad, concatenate, iota.
- `slicing`: slices with known and unknown positions.
- `gathering`: gather; `scattering`: the scatter primitives; `_positions.py`: positions of slices, for both.
- `products`: dot_general; `convolutions`: conv_general_dilated.
- `windows`: reduce_window and the gradients of pooling.
- `reductions`: reductions and positions of extremes; `cumulative`: running sums, products and extremes.
- `sorting`: sort and top_k.
- `control_flow`: while, scan and cond; `calls`: functions that are inlined.
- `random`: random keys and bits.
- `linear_algebra`: decompositions and solvers; `spectral`: Fourier transforms.
- `_error_functions.py`: the error functions; `_substitution.py`: Cholesky decompositions and triangular systems;
  `_fourier.py`: Fourier transforms; all for consumers that do not have them.
- `_traced.py`: rules written as JAX functions.
- `_common.py`: functions that several modules use.

`elementwise_test.py` also has the tests of integers and comparisons, `shaping_test.py` those of slices, gathers and
scatters, `reductions_test.py` those of windows and products, `control_flow_test.py` those of linear algebra and random
bits. Each compares JAX functions with the same functions as plain ops in TensorFlow (`check_plain_ops`).
"""
