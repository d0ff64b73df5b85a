"""Writes a model in both forms, builds the C program, and prints what it measured."""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from graftax.savedmodel_io import load, save

_PROGRAM = Path(__file__).parent / "run_model.c"
_WIDTH, _HIDDEN, _CLASSES = 32, 64, 10
_FORMS: tuple[Literal["stablehlo", "tf_ops"], ...] = ("stablehlo", "tf_ops")
_WHERE = "import importlib.util; print(importlib.util.find_spec('tensorflow').submodule_search_locations[0])"


def _write(path: Path, form: Literal["stablehlo", "tf_ops"], target: str | None) -> tuple[str, str]:
  """Writes the model and returns the nodes of its input and of its result."""
  random = np.random.default_rng(0)
  sizes = {"hidden": (_WIDTH, _HIDDEN), "head": (_HIDDEN, _CLASSES)}
  params = {name: random.normal(size=size).astype(np.float32) / 8 for name, size in sizes.items()}

  def classify(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    return jax.nn.softmax(jnp.tanh(x @ params["hidden"]) @ params["head"])

  rows = jax.ShapeDtypeStruct(jax.export.symbolic_shape(f"batch, {_WIDTH}"), np.float32)
  platforms = ["cpu"] if form == "stablehlo" else None
  save(path, (classify, rows), params, lowering=form, target=target, platforms=platforms, overwrite=True)
  signature = load(path).signatures["serving_default"]
  ((given,),), ((found,),) = signature.input_tensors.values(), signature.output_tensors.values()
  return given.node, found.node


def _build(folder: Path, python: str) -> Path:
  found = subprocess.run([python, "-c", _WHERE], check=True, capture_output=True, text=True)
  wheel = found.stdout.strip()
  program = folder / "run_model"
  libraries = ["-l:libtensorflow_cc.so.2", "-l:libtensorflow_framework.so.2", "-lm", f"-Wl,-rpath,{wheel}"]
  command = ["cc", "-std=gnu99", "-O2", "-Wall", "-Werror", str(_PROGRAM), "-o", str(program)]
  subprocess.run([*command, f"-I{wheel}/include", f"-L{wheel}", *libraries], check=True)
  return program


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("folder", type=Path)
  parser.add_argument("--tensorflow", default=sys.executable, metavar="PYTHON", help="an interpreter with TensorFlow")
  parser.add_argument("--target", help="the release of TensorFlow, such as tensorflow-2.18")
  parser.add_argument("--calls", type=int, default=100_000)
  parser.add_argument("--sizes", type=int, default=32, help="batches have 1 row to this many rows")
  arguments = parser.parse_args()
  arguments.folder.mkdir(parents=True, exist_ok=True)
  program = _build(arguments.folder, arguments.tensorflow)
  for form in _FORMS:
    model = arguments.folder / form
    nodes = _write(model, form, arguments.target if form == "stablehlo" else None)
    numbers = map(str, (_WIDTH, arguments.calls, arguments.sizes))
    done = subprocess.run([program, model, *nodes, *numbers], check=False, capture_output=True, text=True)
    if done.returncode:
      sys.exit(f"{form}: exit {done.returncode}: {done.stderr[-3000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    print(f"{form}: {json.dumps(found)}", flush=True)


if __name__ == "__main__":
  main()
