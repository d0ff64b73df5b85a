"""Runs written programs in TensorFlow: python run_in_tensorflow.py FOLDER...

It imports TensorFlow and NumPy alone, so that any release can run it. Each program is a child process, because XLA may
abort the process. The outcomes are written beside each program, as `tensorflow-X.Y.json`.
"""

import json
import os
import pathlib
import sys

import numpy as np

DOORS = ("value", "gradient", "second order")


def _group(numbers, prefix):
  return [numbers[f"{prefix}{i}"] for i in range(len(numbers)) if f"{prefix}{i}" in numbers]


def _difference(got, want, rtol=5e-3):
  for x, y in zip(got, want, strict=True):
    if x.shape != y.shape:
      return f"wrong: shape {x.shape} in place of {y.shape}"
    scale = max(1.0, float(np.max(np.abs(y), initial=0, where=np.isfinite(y)))) if y.dtype.kind == "f" else 1
    if not np.allclose(x, y, rtol=rtol, atol=rtol * scale, equal_nan=True):
      return f"wrong: {np.nanmax(np.abs(np.asarray(x, np.float64) - np.asarray(y, np.float64)))} off at scale {scale}"
  return "right"


def _derivatives(tf, function, args, directions, order):
  if not order:
    return tf.nest.flatten(function(*args))
  sources = [x for x in args if x.dtype.is_floating]
  with tf.GradientTape() as tape:
    tape.watch(sources)
    results = [y for y in _derivatives(tf, function, args, directions, order - 1) if y.dtype.is_floating]
  found = tape.gradient(results, sources, output_gradients=[tf.constant(x) for x in directions[order - 1]])
  return [tf.zeros_like(x) if g is None else tf.convert_to_tensor(g) for g, x in zip(found, sources, strict=True)]


def check(tf, folder):
  """Returns the outcome of each door that JAX has."""
  numbers = dict(np.load(folder / "numbers.npz"))
  function = tf.saved_model.load(str(folder / "model")).f
  args = [tf.constant(x) for x in _group(numbers, "arg_")]
  directions = [_group(numbers, f"direction_{order}_") for order in range(2)]
  outcomes = {}
  for order, name in enumerate(DOORS):
    want = _group(numbers, f"{name}_")
    if want:
      try:
        got = _derivatives(tf, function, args, directions, order)
        outcomes[name] = _difference([x.numpy() for x in got], want)
      except LookupError as e:  # of PreventGradient, which saving wrote with the reason
        kind = "refused" if "Gradient explicitly disabled" in str(e) else "raised"
        outcomes[name] = f"{kind}: {' '.join(str(e).split())}"[:400]
      except Exception as e:
        outcomes[name] = f"raised: {type(e).__name__}: {' '.join(str(e).split())}"[:400]
  return outcomes


def main(folders):
  import tensorflow as tf

  release = ".".join(tf.__version__.split(".")[:2])
  for folder in map(pathlib.Path, folders):
    if not (folder / "model").is_dir():
      continue
    target = folder / f"tensorflow-{release}.json"
    child = os.fork()
    if not child:
      try:
        outcomes = check(tf, folder)
      except Exception as e:
        outcomes = {"value": f"does not load: {type(e).__name__}: {' '.join(str(e).split())}"[:400]}
      target.write_text(json.dumps(outcomes, indent=1))
      os._exit(0)
    if os.waitpid(child, 0)[1]:
      target.write_text(json.dumps({"value": "TensorFlow aborts"}))


if __name__ == "__main__":
  main(sys.argv[1:])
