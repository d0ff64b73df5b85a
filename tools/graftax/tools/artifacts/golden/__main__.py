"""Writes golden artifacts with the installed TensorFlow, 1.15 or any later one.

    PYTHONPATH=tools python -m graftax.tools.artifacts.golden savedmodel_io/graftax/savedmodel_io/testdata/golden/DATE
    PYTHONPATH=tools python -m graftax.tools.artifacts.golden FOLDER --only functions custom_gradient

Writes a folder for the version of TensorFlow below the given one, which must not have it yet: artifacts are never
written again, because what an old TensorFlow wrote must stay readable. Without TensorFlow,
`savedmodel_io/golden_artifacts_test.py` converts all of them and compares what they compute.

With `--text`, it writes models of TensorFlow Text instead. tensorflow-text and sentencepiece must be installed.
"""

from __future__ import annotations

import argparse
import os
import traceback

from graftax.tools.artifacts.golden import checkpoints, graphs, keras_models, modules, stablehlo, text
from graftax.tools.artifacts.golden.recorder import Recorder

__all__ = ["main"]


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("folder", help="dated folder")
  parser.add_argument("--only", nargs="+", metavar="NAME", help="artifacts to write; by default all")
  parser.add_argument("--text", action="store_true", help="write models of TensorFlow Text")
  arguments = parser.parse_args()
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
  import tensorflow as tf

  recorder = Recorder(tf, arguments.folder)
  writers = {**graphs.WRITERS, **checkpoints.WRITERS}
  if int(tf.__version__.split(".")[0]) >= 2:
    writers.update(modules.WRITERS)
    writers.update(stablehlo.WRITERS)
  writers.update(keras_models.WRITERS)
  if arguments.text:
    writers = text.WRITERS
  for name in arguments.only or writers:
    write = writers[name]
    try:
      write(tf, recorder, name)
    except Exception:  # releases differ in what they can write
      traceback.print_exc(limit=3)
      recorder.discard(name)
      print("not written:", name)
  recorder.close()


if __name__ == "__main__":
  main()
