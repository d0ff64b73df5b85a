"""The JAX functions that suites draw on.

- `case`: a function, its arguments, and how its results are compared.
- `catalogue`: all functions, by kind.
- `networks`: small networks, as users of TF.js have them: functions of parameters and a batch.
- `functions`: the functions, one module for each kind.

`graftax.testing.roundtrip_cases` has those that are exported and lifted again, which benchmarks call, too. A function
that is in both is written there.
"""
