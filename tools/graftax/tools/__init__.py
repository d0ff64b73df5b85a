"""The `graftax` command, the demo, the benchmarks, and the generators of checked-in data.

- `graftax --help`: inspect, run and convert SavedModels from the command line.
- `python -m graftax.tools.demo`: what graftax does, in half a minute.
- `python -m graftax.tools.benchmarks`: time and memory beside TF2JAX.

The command:

- `cli`: its options, help and messages, a module for each subcommand.
- `errors`: errors of the command.
- `console`: consoles for results and remarks, and the progress display.

`graftax inspect`:

- `model_report`: what a SavedModel holds and whether it converts, as plain data.
- `model_view`: a report as tables.
- `html`: a report as one page.
- `model_comparison`: what two models differ in.
- `module_report`: what a file of StableHLO holds.
- `weights_report`: what a file of weights holds.
- `abstract_trace`: traces a program on shapes alone.
- `scope_costs`: what the scopes of a traced function compute and move.

`graftax run`, `convert`, `source` and `export`:

- `run_model`: applies a signature to arrays from files.
- `export_model`: writes a signature as a file of jax.export, with its parameters as safetensors.
- `loading_code`: the Python code that comes with it.
- `source_folder`: writes a signature as Python without graftax.
- `export_function`: writes a JAX function from a Python file as a SavedModel.

`graftax rewrite`:

- `rewrite_model`: writes a model of any form for the program that will run it.
- `compiled_files`: `--for stablehlo`.
- `check_rewritten`: `--check`.

`graftax ops` and `graftax doctor`:

- `op_report`: what graftax knows about a TensorFlow op.
- `op_checks`: what checks against TensorFlow showed about each op.
- `outward_ops`: the rules that write an op for JAX primitives.
- `doctor`: versions, devices and optional libraries.
- `huge_pages`: whether memory comes in large pages.
- `facts_view`: prints all of it.

What commands are given:

- `input_options`: shapes and dtypes from `--input`.
- `shape_options`: shapes from `--batch` and `--shape`.
- `open_sizes`: advice about models that cannot be traced with open sizes.
- `array_files`: arrays in .npy and .npz files.
- `string_files`: strings in files.
- `parameter_files`: nested parameters in .npz and .safetensors files.
- `module_files`: files of StableHLO.
- `python_objects`: functions and parameters in Python files.
- `host_examples`: example inputs of models that are split.
- `numeric_examples`: example inputs of numbers.
- `dtype_names`: short texts for sets of dtypes.
- `pytrees`: names of types for what models take and return.

The demo:

- `demo`: what graftax does, on a model in front of you.
- `demo_view`: prints its results.
- `demo_picture`: draws what it prints.
- `examples`: small models that ship with the package.

For those who work on graftax:

- `benchmarks`: time and memory beside TF2JAX.
- `codegen`: generators of tables and pages that are checked in.
- `artifacts`: scripts that write dated files for tests.
"""

__version__ = "0.1.0"

__all__: "list[str]" = []  # quoted for the old Pythons that artifacts/golden runs on
