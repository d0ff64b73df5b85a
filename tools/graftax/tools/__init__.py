"""The `graftax` command, the demo, the benchmarks, and the generators of checked-in data.

- `graftax --help`: inspect, run and convert SavedModels from the command line.
- `python -m graftax.tools.demo`: what graftax does, in half a minute.
- `python -m graftax.tools.benchmarks`: time and memory beside TF2JAX.

The command:

- `cli`: its options, help and messages, a module for each subcommand.
- `inputs`: what commands are given: options that name shapes, and files of arrays.
- `inspection`: what `graftax inspect` does.
- `commands`: what `graftax run`, `convert`, `source`, `export` and `rewrite` do.
- `facts`: what `graftax ops` and `graftax doctor` show.
- `errors`: errors of the command.
- `console`: consoles for results and remarks, and the progress display.
- `pytrees`: names of types for what models take and return.

The demo:

- `demo`: what graftax does, on a model in front of you.
- `examples`: small models that ship with the package.

For those who work on graftax:

- `benchmarks`: time and memory beside TF2JAX.
- `codegen`: generators of tables and pages that are checked in.
- `artifacts`: scripts that write dated files for tests.
"""

__version__ = "0.1.0"

__all__: "list[str]" = []  # quoted for the old Pythons that artifacts/golden runs on
