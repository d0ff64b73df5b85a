"""Writes JAX functions and models for other runtimes, runs them there, and prints a table.

Fails if a result is wrong, or if nothing runs in one of them.
"""

import argparse
import datetime
import importlib.metadata
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from graftax.convert.rewriting import Consumer
from graftax.testing.consumers.functions import CASES
from graftax.testing.consumers.models import Written, write_functions, write_models, zoo_names
from graftax.testing.consumers.page import Column, broken_consumers, errors_text, table_text, wrong_results
from graftax.testing.harness.scripts import run_script

_HERE = Path(__file__).parent
# For each consumer its name for `Consumer.of`, and the distributions whose versions the table shows.
_CONSUMERS = {
  "tensorflow": ("", ("tensorflow", "tensorflow_cpu")),
  "tflite": ("tflite", ("tensorflow", "tensorflow_cpu")),
  "onnx": ("onnx", ("tf2onnx", "onnxruntime", "tensorflow_cpu")),
  "tfjs": ("tfjs", ("tensorflowjs", "tensorflow_cpu")),
  "iree": ("stablehlo", ("iree-base-compiler", "iree-base-runtime")),
}
_PAGE = """\
# Functions and models by consumers

Each function of `graftax.testing.consumers`, and below them each model of `graftax.testing.zoo` that runs under `jit`,
is written for the consumer, run there, and compared with JAX: right (within 1e-5 of the size of the result), refused
(by graftax, while it was written), wrong, or failed (in the converter or the runtime). TensorFlow saved the models, and
graftax read them as JAX functions.
{about_iree}Errors are listed below the table. `make consumers` writes this page.

{date}, JAX {jax}; {versions}.

{table}

## Errors

{errors}
"""
_ABOUT_IREE = """\
IREE gets StableHLO of fixed sizes.
"""


def _versions(python: str, consumer: str) -> dict[str, str]:
  code = (
    "import importlib.metadata as m\n"
    f"for n in {_CONSUMERS[consumer][1]}:\n"
    "  try: print(n, m.version(n))\n"
    "  except m.PackageNotFoundError: pass"
  )
  done = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True)
  return dict(line.split() for line in done.stdout.splitlines())


def _column(consumer: str, python: str, folder: Path, names: Sequence[str], models: Sequence[str]) -> Column:
  versions = _versions(python, consumer)
  name = _CONSUMERS[consumer][0]
  title = consumer
  if consumer == "tensorflow":
    name = title = f"tensorflow-{'.'.join(next(iter(versions.values())).split('.')[:2])}"
  reader = Consumer.of(name)
  written: list[Written] = list(write_functions(folder / title, names, reader))
  written += write_models(folder / f"{title}_models", models, reader)
  paths = [path for _, path, refusal in written if refusal is None]
  rows = run_script(python, _HERE / f"run_{consumer}.py", paths)
  errors = {
    name: f"refused: {refusal}" if refusal else None if rows[path]["right"] else str(rows[path]["error"])
    for name, path, refusal in written
  }
  text = ", ".join(f"{distribution.replace('_', '-')} {version}" for distribution, version in versions.items())
  return Column(title, text, errors)


def _page(names: Sequence[str], columns: Sequence[Column]) -> str:
  return _PAGE.format(
    date=datetime.date.today().isoformat(),
    jax=importlib.metadata.version("jax"),
    versions="; ".join(f"{column.consumer}: {column.versions}" for column in columns),
    about_iree=_ABOUT_IREE if any(column.consumer == "iree" for column in columns) else "",
    table=table_text(names, columns),
    errors=errors_text(columns),
  )


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("folder", type=Path)
  for consumer in _CONSUMERS:
    parser.add_argument(f"--{consumer}", action="append", default=[], metavar="PYTHON", help="an interpreter with it")
  parser.add_argument("--only", action="append", help="the name of a function or model; by default all")
  parser.add_argument("--write", type=Path, metavar="FILE", help="write a page with the table and the errors")
  arguments = parser.parse_args()
  is_wanted = {*(arguments.only or [])}
  names = [name for name in CASES if not is_wanted or name in is_wanted]
  models = [name for name in zoo_names() if not is_wanted or name in is_wanted]
  columns = []
  for consumer in _CONSUMERS:
    for python in getattr(arguments, consumer):
      columns.append(_column(consumer, python, arguments.folder, names, models))
      print(table_text([*names, *models], columns[-1:]), errors_text(columns[-1:]), sep="\n", flush=True)
  if arguments.write:
    arguments.write.write_text(_page([*names, *models], columns), encoding="utf-8")
  if wrong := wrong_results(columns):
    sys.exit(f"wrong results: {', '.join(wrong)}")
  if broken := broken_consumers(columns):
    sys.exit(f"nothing ran in: {', '.join(broken)}")


if __name__ == "__main__":
  main()
