"""SavedModels of plain TensorFlow ops, converted for other runtimes and run there.

    python -m graftax.testing.plain_consumers FOLDER --tflite PYTHON --onnx PYTHON --tfjs PYTHON

writes the models, converts and runs them, and prints a table.

- `functions`: The JAX functions, and their inputs.
- `run_tflite`, `run_onnx`, `run_tfjs`: Convert models and run them; each runs alone, in an interpreter with TensorFlow
  and the converter.
- `run_tfjs.js`: Runs a converted model in node.
- `_results.py`: What the scripts share.
"""
