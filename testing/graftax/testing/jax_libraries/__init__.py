"""Programs of JAX libraries, written as SavedModels and run in several versions of TensorFlow.

    make jax-libraries    # in an environment of its own, see requirements.in

The libraries are not dependencies of the project, so each module of `programs/` imports its library only when its
programs are asked for.

- `programs`: the programs, one module for each library.
- `program`: What a program is, and the derivatives that are compared.
- `writing`: Writes programs as SavedModels beside the numbers that JAX computes, and reads them back.
- `run_in_tensorflow`: Runs written programs. It imports TensorFlow and NumPy alone, so that any release can run it.
- `report`: The table of the outcomes.
"""
