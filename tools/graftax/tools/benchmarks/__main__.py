"""Runs the benchmarks, prints tables and writes a JSON file: `python -m graftax.tools.benchmarks --help`."""

import argparse
import json
import sys
from pathlib import Path

from rich.console import Console

from graftax.savedmodel_io.writing.atomic import new_file, new_folder
from graftax.tools.benchmarks.benchmark import Benchmark
from graftax.tools.benchmarks.measuring import BenchmarkError, measure
from graftax.tools.benchmarks.registry import BENCHMARKS
from graftax.tools.benchmarks.summary import machine, result_json, result_table

__all__ = ["main"]

_NUM_RUNS = 5
_FOLDER = Path("build/benchmarks")
_WIDTH = 110


def main() -> int:
  """Returns the exit code: 0, or 1 if a benchmark could not be measured."""
  arguments = _parse_arguments()
  console = Console(width=_WIDTH, highlight=False)
  chosen = [benchmark for benchmark in BENCHMARKS if not arguments.names or benchmark.name in arguments.names]
  results, failed = [], False
  for benchmark in chosen:
    try:
      results.append(_run(benchmark, arguments.folder, arguments.runs, console))
    except BenchmarkError as e:
      console.print(f"{benchmark.name} could not be measured: {e}", style="red", markup=False)
      failed = True
  output = arguments.json or arguments.folder / "results.json"
  with new_file(output) as path:
    path.write_text(json.dumps({"machine": machine(), "benchmarks": results}, indent=2) + "\n", encoding="utf-8")
  console.print(f"All runs are in {output}.", markup=False)
  return int(failed)


def _parse_arguments() -> argparse.Namespace:
  parser = argparse.ArgumentParser(prog="graftax.tools.benchmarks", description=__doc__)
  known = [benchmark.name for benchmark in BENCHMARKS]
  parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(known)} (default: all)")
  parser.add_argument("--runs", type=int, default=_NUM_RUNS, help="counted runs of each contestant (%(default)s)")
  parser.add_argument("--folder", type=Path, default=_FOLDER, help="where models are kept (%(default)s)")
  parser.add_argument("--json", type=Path, help="where to write all measurements (FOLDER/results.json)")
  arguments = parser.parse_args()
  unknown = sorted(set(arguments.names) - set(known))
  if unknown:
    parser.error(f"unknown benchmarks {unknown}; expected some of {', '.join(known)}")
  return arguments


def _run(benchmark: Benchmark, folder: Path, num_runs: int, console: Console) -> dict[str, object]:
  data = folder / benchmark.name
  folder.mkdir(parents=True, exist_ok=True)
  if benchmark.make_data is not None and not data.exists():
    console.print(f"Making {data}, once.", style="dim", markup=False)
    with new_folder(data) as scratch:
      benchmark.make_data(scratch)
  with console.status("") as status:
    runs = measure(benchmark, data, num_runs, lambda contestant: status.update(f"{benchmark.name}: {contestant}"))
  console.print(result_table(benchmark, runs))
  return result_json(benchmark, runs)


if __name__ == "__main__":
  sys.exit(main())
