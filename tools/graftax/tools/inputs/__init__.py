"""What commands of `graftax` are given: options that name shapes and dtypes, and files of arrays and programs.

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
"""
