"""Command line of `python -m graftax.testing.jax_consumers`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from graftax.graphdef_ir import GraftaxError, optional_library
from graftax.testing._tensorflow import import_tensorflow
from graftax.testing.differential.oracle import Oracle
from graftax.testing.harness.conversion_case import ConversionCase
from graftax.testing.harness.scripts import run_script
from graftax.testing.harness.tables import table
from graftax.testing.jax_consumers.primitives import own_primitives
from graftax.testing.keras_applications import APPLICATIONS, Application
from graftax.testing.tensorflow_programs.catalogue import installed_models
from graftax.testing.zoo.saving import SavedCopies


def main(arguments: Sequence[str] | None = None) -> None:
  """Runs the command."""
  options = _parser().parse_args(arguments)
  models = [model for name, model in installed_models().items() if name in (options.model or [name])]
  models = [model for model in models if "jit" in model.checks]
  paths: dict[str, Path] = {}
  rows: dict[str, list[str]] = {}
  for model in models:
    paths[model.name] = options.folder / model.name
    try:
      rows[model.name] = [_described(_save(model, paths[model.name]))]
    except GraftaxError as e:
      rows[model.name] = [f"{type(e).__name__}: {e}"]
    print(model.name, *rows[model.name], file=sys.stderr, flush=True)
  if options.keras:
    for application in APPLICATIONS:
      rows[application.name] = [_described(_count_keras(application))]
      print(application.name, *rows[application.name], file=sys.stderr, flush=True)
  if options.jax2onnx:
    found = run_script(options.jax2onnx, Path(__file__).parent / "run_jax2onnx.py", list(paths.values()))
    for name, path in paths.items():
      rows[name].append("right" if found[path]["right"] else found[path]["error"][:200])
    print(f"jax2onnx: {sum(row['right'] for row in found.values())} of {len(found)} right")
  print(table(["model", "primitives of graftax", "jax2onnx"], ([name, *row, ""][:3] for name, row in rows.items())))


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog="python -m graftax.testing.jax_consumers", description="Count own primitives, and convert with jax2onnx."
  )
  parser.add_argument("folder", type=Path, help="where the models are saved; it should not exist")
  parser.add_argument("--model", action="append", help="only this model of the zoo; may be repeated")
  parser.add_argument("--keras", action="store_true", help="also count the primitives of keras.applications")
  parser.add_argument("--jax2onnx", help="an interpreter with jax2onnx, onnxruntime and graftax-savedmodel-io")
  return parser


def _described(counts: dict[str, int]) -> str:
  return ", ".join(f"{name}: {count}" for name, count in sorted(counts.items())) or "0"


def _save(model: ConversionCase, folder: Path) -> dict[str, int]:
  """Saves a model with its inputs and TensorFlow's results; returns the counts of our primitives in its conversion."""
  oracle = Oracle(model)
  with jax.enable_x64(model.x64):
    function, params = SavedCopies(folder).converter.convert(oracle.function, oracle.specs(model.inputs))
    counts = own_primitives(function, params, *model.inputs)
  inputs = {f"x{i}": x for i, x in enumerate(jax.tree.leaves(model.inputs))}
  results = {f"y{i}": y for i, y in enumerate(jax.tree.leaves(oracle.value(model.inputs)))}
  np.savez(f"{folder}.npz", **inputs, **results)
  return counts


def _count_keras(application: Application) -> dict[str, int]:
  """Returns the counts of our primitives in the conversion of a model of `keras.applications`."""
  from graftax.convert import convert

  tf = import_tensorflow()
  with optional_library("keras.applications", "graftax-testing[keras]"):
    import keras
  size = application.image_size
  model: Any = getattr(keras.applications, application.name)(weights=None, input_shape=(size, size, 3), classes=10)
  function, params = convert(tf.function(lambda images: model(images)), tf.TensorSpec((2, size, size, 3)))
  counts = own_primitives(function, params, jax.ShapeDtypeStruct((2, size, size, 3), np.float32))
  keras.backend.clear_session()
  return counts


if __name__ == "__main__":
  main()
