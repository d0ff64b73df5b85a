"""Compares run times of networks with other frameworks and runtimes.

Runtimes that are not installed here run in environments of their own: `--environment "ONNX Runtime=PYTHON"`. ONNX
models are written by tf2onnx in the environment of `--tf2onnx PYTHON`. A runtime without its environment is left out.
"""

import argparse
import contextlib
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console

from graftax.savedmodel_io.writing.atomic import new_file
from graftax.tools.benchmarks.ratios import RUNTIMES
from graftax.tools.benchmarks.runtimes.comparison import comparison_table, is_busy, stored_rows
from graftax.tools.benchmarks.runtimes.contestants import CONTESTANTS
from graftax.tools.benchmarks.runtimes.machine_load import busy_share, snapshot
from graftax.tools.benchmarks.runtimes.networks import NETWORKS
from graftax.tools.benchmarks.runtimes.turns import Times, disagreeing, measure_row
from graftax.tools.benchmarks.runtimes.workers import Prepared, Worker, WorkerError
from graftax.tools.benchmarks.summary import machine

__all__ = ["main"]

_FOLDER = Path("build/benchmarks/runtimes")
_BATCHES = (1, 4, 32)
_MAX_BUSY = 0.05
_OPSET = "18"
_WIDTH = 250
_TITLE = "Run times of networks"


def main(args: Sequence[str] | None = None) -> int:
  """Returns the exit code: 0, or 1 if the machine was busy or values differ."""
  options = _parser().parse_args(args)
  console = Console(width=_WIDTH, highlight=False, stderr=True)
  folder: Path = options.folder
  names = options.networks or list(NETWORKS)
  environments = dict(options.environment)
  rows = [f"{name}:{batch}" for name in names for batch in options.batch]
  _write(folder, names, options.tf2onnx)
  chosen = [name for name in options.contestant or CONTESTANTS if name not in RUNTIMES or name in environments]
  with contextlib.ExitStack() as stack:

    def start(name: str) -> tuple[Worker, Sequence[Prepared]]:
      console.print(f"preparing {name}", style="dim")
      log = folder / f"{name.replace(' ', '_')}.log"
      worker = stack.enter_context(Worker(name, environments.get(name, sys.executable), folder, rows, log))
      return worker, worker.prepared()

    # One for each core prepares at a time.
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
      started = list(pool.map(start, chosen))
    workers, prepared = [worker for worker, _ in started], {worker.contestant: told for worker, told in started}
    _wait_for(options.start_when, console)
    if not options.busy and not _is_quiet(console):
      return 1
    measured, differs = _measure(rows, workers, prepared, options.seconds, console)
    if options.done:
      options.done.touch()
  Console(width=_WIDTH, highlight=False).print(comparison_table(measured))
  output = options.json or folder / "results.json"
  _store(output, measured, " ".join(["python -m graftax.tools.benchmarks.runtimes", *names]))
  console.print(f"All medians are in {output}.", markup=False)
  return int(differs)


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(prog="graftax.tools.benchmarks.runtimes", description=__doc__)
  parser.add_argument("networks", nargs="*", metavar="NAME", help=f"some of {', '.join(NETWORKS)} (default: all)")
  parser.add_argument("--batch", type=int, nargs="+", default=list(_BATCHES), help="sizes of the first axis (1 4 32)")
  parser.add_argument("--seconds", type=float, default=20.0, help="of measuring a row (%(default)s)")
  parser.add_argument("--folder", type=Path, default=_FOLDER, help="where models are kept (%(default)s)")
  parser.add_argument("--contestant", action="append", choices=list(CONTESTANTS), help="only this one; may be repeated")
  parser.add_argument(
    "--environment", action="append", default=[], type=_environment, metavar="CONTESTANT=PYTHON",
    help="the Python that has a framework; may be repeated",
  )  # fmt: skip
  parser.add_argument("--tf2onnx", type=Path, metavar="PYTHON", help="the Python that has tf2onnx")
  parser.add_argument("--busy", action="store_true", help="measure on a busy machine, too, and mark the rows")
  parser.add_argument("--start-when", type=Path, metavar="FILE", help="prepare everything, and wait for this file")
  parser.add_argument("--done", type=Path, metavar="FILE", help="create this file when everything is measured")
  parser.add_argument("--json", type=Path, help="where to write the medians (FOLDER/results.json)")
  return parser


def _environment(text: str) -> tuple[str, Path]:
  name, _, python = text.partition("=")
  if name not in CONTESTANTS or not python:
    raise argparse.ArgumentTypeError(f"{text!r}; expected CONTESTANT=PYTHON with one of {', '.join(CONTESTANTS)}")
  return name, Path(python)


def _write(folder: Path, names: Sequence[str], tf2onnx: Path | None) -> None:
  """Writes the networks that are not there, each form once."""
  folder.mkdir(parents=True, exist_ok=True)
  missing = [name for name in names if not (folder / name / "inputs.json").exists()]
  if missing:
    command = [sys.executable, "-m", "graftax.tools.benchmarks.runtimes.written", str(folder), *missing]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
  for name in names:
    path = folder / name
    if tf2onnx is None or NETWORKS[name].train or (path / "onnx.log").exists():
      continue
    command = [str(tf2onnx), "-m", "tf2onnx.convert", "--saved-model", str(path / "saved_model"), "--opset", _OPSET]
    with new_file(path / "onnx.log") as log, log.open("w", encoding="utf-8") as output:
      # What it cannot convert, ONNX Runtime will miss.
      subprocess.run([*command, "--output", str(path / "model.onnx")], stdout=output, stderr=output)


def _wait_for(path: Path | None, console: Console) -> None:
  if path is not None:
    console.print(f"prepared; waiting for {path}", markup=False)
    while not path.exists():
      time.sleep(0.2)


def _is_quiet(console: Console) -> bool:
  before = snapshot()
  time.sleep(1)
  share = busy_share(before, snapshot())
  if share > _MAX_BUSY:
    console.print(f"others have {share:.0%} of the cores; nothing is judged. --busy measures and marks.", style="red")
    return False
  if math.isnan(share):
    console.print("this system does not tell how busy it is", style="yellow")
  return True


def _measure(
  rows: Sequence[str],
  workers: Sequence[Worker],
  prepared: Mapping[str, Sequence[Prepared]],
  seconds: float,
  console: Console,
) -> tuple[list[Times], bool]:
  """Returns what was measured, and whether a contestant computed something else."""
  measured, differs = [], False
  for index, row in enumerate(rows):
    told = {name: found[index] for name, found in prepared.items()}
    able = {name: found for name, found in told.items() if "failed" not in found}
    for name in told.keys() - able.keys():
      console.print(f"{row}: without {name}: {told[name]['failed']}", style="dim", markup=False)
    wrong = disagreeing(able)
    if wrong:
      console.print(f"{row}: other values than most: {wrong}", style="red", markup=False)
      differs = True
    fair = [worker for worker in workers if worker.contestant in able and worker.contestant not in wrong]
    if not fair:
      console.print(f"{row}: nobody runs it", style="red", markup=False)
      differs = True
      continue
    try:
      measured.append(measure_row(row, index, fair, seconds))
    except WorkerError as e:
      console.print(f"{row} and the rows after it: {e}", style="red", markup=False)
      return measured, True
    if is_busy(measured[-1]):
      console.print(f"{row}: others had {measured[-1].others:.0%} of the cores", style="yellow", markup=False)
  return measured, differs


def _store(path: Path, measured: Sequence[Times], command: str) -> None:
  versions = machine()
  content = {
    "title": _TITLE,
    "date": versions["date"],
    "command": command,
    "machine": {**versions, "load": "each row tells the share of the cores that others had"},
    "benchmarks": stored_rows(measured),
  }
  with new_file(path) as file:
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
  sys.exit(main())
