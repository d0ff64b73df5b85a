"""SavedModels called from C over TensorFlow's C API, with changing sizes.

    python -m graftax.testing.c_api FOLDER [--tensorflow PYTHON] [--calls N] [--sizes N]

writes a classifier with an open batch as StableHLO and as plain ops, compiles `run_model.c` against the libraries of a
TensorFlow wheel, and prints the time of calls and the memory of the process. It needs a C compiler, `cc`.

- `run_model.c`: The program.
"""
