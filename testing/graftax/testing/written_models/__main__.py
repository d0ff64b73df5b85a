"""Writes models as source, runs them in an environment with jax alone, and prints a table."""

import argparse
import datetime
import importlib.metadata
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from graftax.testing.harness.children import run_in_children
from graftax.testing.harness.scripts import run_script
from graftax.testing.pytrees import Json
from graftax.testing.written_models.page import outcome, page_text, problem, summary_text
from graftax.testing.written_models.subjects import subject_names

Row = dict[str, Json]

_RUN = Path(__file__).parent / "run_written.py"
_ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow"}
_ROWS = "rows.jsonl"


def _run(names: Sequence[str], options: argparse.Namespace) -> Iterator[Row]:
  """Writes and runs models, and yields what was found of each; arrays are deleted."""
  folders = {name: options.folder / name.replace("/", "_") for name in names}
  for folder in folders.values():
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
  facts: dict[str, Row] = {}
  with (options.folder / "errors.txt").open("w+b") as errors:
    for name, answer in run_in_children(
      "graftax.testing.written_models.write",
      names,
      lambda share: {"modules": str(options.modules or ""), "models": [[n, str(folders[n])] for n in share]},
      _ENVIRONMENT,
      options.seconds,
      errors=errors,
    ):
      facts[name] = {"error": answer.lost} if answer.lost else answer.result
  written = [folders[name] for name in names if "error" not in facts[name]]
  ran = run_script(options.python, _RUN, written, options.seconds)
  for name, folder in folders.items():
    row: Row = {"name": name, **facts[name]}
    if folder in ran:
      row["written_instructions"] = ran[folder].pop("instructions", None)
      row |= {key: value for key, value in ran[folder].items() if key != "path"}
    for path in folder.glob("*.npz"):
      path.unlink()
    yield row


def _read(path: Path) -> dict[str, Row]:
  """Returns the last row of each model."""
  lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
  rows: list[Row] = [json.loads(line) for line in lines]
  return {row["name"]: row for row in rows}


def _versions(python: str) -> str:
  code = "import importlib.metadata as m; print(*[f'{n} {m.version(n)}' for n in ('jax', 'jaxlib', 'numpy')], sep=', ')"
  done = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True)
  written = [f"{name} {importlib.metadata.version(name)}" for name in ("jax", "keras")]
  return f"{datetime.date.today().isoformat()}. Written with {', '.join(written)}; run with {done.stdout.strip()}"


def main() -> int:
  """Runs the command, and returns 1 if a model is not right."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("folder", type=Path, help=f"where models are written, and {_ROWS}, from which a run goes on")
  parser.add_argument("--python", default=sys.executable, help="an interpreter with jax and numpy alone")
  parser.add_argument("--modules", type=Path, help="a folder with modules of StableHLO")
  parser.add_argument("--num-modules", type=int, default=100)
  parser.add_argument("--batch", type=int, default=8, help="how many models a process writes")
  parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="a part of the names of models")
  parser.add_argument("--again", action="store_true", help="run models again that are not right")
  parser.add_argument("--seconds", type=float, default=600, help="for writing a model, and for running it")
  parser.add_argument("--write", type=Path, metavar="FILE", help="write a page of what has been run")
  parser.add_argument("--no-run", action="store_true", help="run nothing")
  options = parser.parse_args()
  options.folder.mkdir(parents=True, exist_ok=True)
  names = subject_names(options.modules, options.num_modules)
  rows = _read(options.folder / _ROWS)
  chosen = [name for name in names if not options.only or any(part in name for part in options.only)]
  missing = [n for n in chosen if n not in rows or (options.again and outcome(rows[n]) != "right")]
  for start in range(0, 0 if options.no_run else len(missing), options.batch):
    for row in _run(missing[start : start + options.batch], options):
      rows[row["name"]] = row
      with (options.folder / _ROWS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
      print(f"{row['name']}: {problem(row) or 'right'}", file=sys.stderr, flush=True)
  known = [rows[name] for name in names if name in rows]
  print(summary_text(known, names))
  if options.write:
    options.write.write_text(page_text(known, names, _versions(options.python)), encoding="utf-8")
  return int(any(outcome(rows[name]) != "right" for name in chosen if name in rows))


if __name__ == "__main__":
  sys.exit(main())
