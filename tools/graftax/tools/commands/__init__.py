"""What `graftax run`, `convert`, `source`, `export` and `rewrite` do; `cli` has their options and messages.

`graftax run`, `convert`, `source` and `export`:

- `run_model`: applies a signature to arrays from files.
- `export_model`: writes a signature as a file of jax.export, with its parameters as safetensors.
- `loading_code`: the Python code that comes with it.
- `source_folder`: writes a signature as Python without graftax, with files made of those in source_templates/.
- `export_function`: writes a JAX function from a Python file as a SavedModel.

`graftax rewrite`:

- `rewrite_model`: writes a model of any form for the program that will run it.
- `compiled_files`: `--for stablehlo`.
- `check_rewritten`: `--check`.
"""
