"""The `graftax` command, the demo, the benchmarks, and the generators of checked-in data.

- `graftax --help`: inspect, run and convert SavedModels from the command line.
- `python -m graftax.tools.demo`: what graftax does, in half a minute.
- `python -m graftax.tools.benchmarks`: time and memory beside TF2JAX.
"""

__version__ = "0.1.0"

__all__: "list[str]" = []  # quoted for the old Pythons that artifacts/golden runs on
