"""Models written as source, run in an environment with jax alone, and compared with the functions that they were.

    python -m graftax.testing.written_models FOLDER --python PYTHON [--modules FOLDER] [--write PAGE]

writes and runs every model of the zoo and of keras.applications, and modules of StableHLO, and prints counts. Processes
write a batch of models each. A second run goes on where the first one stopped.

- `subjects`: The models, as JAX functions with inputs.
- `write`: Writes one model with its values, derivatives and the size of the compiled program.
- `page`: The page of results.
- `run_written`: Runs what was written; runs alone, without graftax.
"""
