"""Makes models with jax2tf, rewrites them for several releases of TensorFlow, runs them there, and prints a table."""

import argparse
import collections
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from graftax.graphdef_ir import GraftaxError
from graftax.savedmodel_io import rewrite
from graftax.testing.harness.scripts import run_script
from graftax.testing.harness.tables import table

_HERE = Path(__file__).parent
_VERSION = "import tensorflow as tf; print(tf.__version__)"


def _release(python: str) -> str:
  done = subprocess.run([python, "-c", _VERSION], check=True, capture_output=True, text=True)
  return ".".join(done.stdout.split()[-1].split(".")[:2])


def _rewritten(models: Sequence[Path], consumer: str) -> Iterator[tuple[Path, str | None]]:
  """Yields the copy of each model for a consumer, with the error if it cannot be written."""
  for model in models:
    copy = model.with_name(f"{model.name}@{consumer}")
    try:
      rewrite(model, copy, consumer, platforms=["cpu"], overwrite=True)
    except GraftaxError as e:
      yield copy, f"{type(e).__name__}: {e}"
    else:
      yield copy, None


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("folder", type=Path)
  parser.add_argument("--make", action="append", default=[], help="a Python with TensorFlow and jax2tf")
  parser.add_argument("--run", action="append", default=[], help="a Python with TensorFlow")
  parser.add_argument("--originals", action="store_true", help="run the models as they were made, too")
  arguments = parser.parse_args()
  for number, python in enumerate(arguments.make):
    subprocess.run([python, str(_HERE / "make_models.py"), str(arguments.folder / str(number))], check=True)
  models = sorted(path.parent for path in arguments.folder.glob("*/*/saved_model.pb") if "@" not in path.parent.name)
  counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
  problems = []
  for python in arguments.run:
    consumer = f"tensorflow-{_release(python)}"
    copies = list(_rewritten(models, consumer))
    for copy, error in copies:
      if error is not None:
        counts[consumer]["refused"] += 1
        problems.append(f"{copy}: refused: {error}")
    kinds = {consumer: [copy for copy, error in copies if error is None]}
    if arguments.originals:
      kinds[f"{consumer}, original"] = models
    for kind, paths in kinds.items():
      for row in run_script(python, _HERE / "run_models.py", paths).values():
        counts[kind]["right" if row["right"] else "wrong"] += 1
        if not row["right"]:
          problems.append(f"{kind}: {re.sub('.*/(?=[^/]*/[^/]*$)', '', row['path'])}: {row}")
  rows = [(kind, count["right"], count["wrong"], count["refused"]) for kind, count in counts.items()]
  print(table(["run in", "right", "wrong or failed", "refused"], rows, num_left=1))
  print("\n".join(problems))


if __name__ == "__main__":
  main()
