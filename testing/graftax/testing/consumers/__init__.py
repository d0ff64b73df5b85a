"""JAX functions and models, written for other runtimes and run there: which consumer runs what.

    python -m graftax.testing.consumers FOLDER --tflite PYTHON --onnx PYTHON --tfjs PYTHON --iree PYTHON

writes the functions for each consumer, runs them there, and prints a table; `--write FILE` writes a page of it. `make
consumers` makes the environments, too.

- `functions`: The JAX functions, and their inputs.
- `models`: Writes functions and models of the zoo for a consumer, with their inputs and results.
- `page`: The table, as text in Markdown.
- `run_iree`, `run_onnx`, `run_tensorflow`, `run_tflite`, `run_tfjs`: Convert models and run them; each runs alone, in
  an interpreter with the consumer.
- `run_tfjs.js`: Runs a converted model in node.
- `_results.py`: What the scripts share.
"""
