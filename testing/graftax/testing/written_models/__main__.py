"""Writes models as source, runs them in an environment with jax alone, and prints a table."""

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from graftax.testing.harness.scripts import run_script
from graftax.testing.harness.tables import table
from graftax.testing.written_models.subjects import subject_names

# Any in this module: what JSON can hold.

_RUN = Path(__file__).parent / "run_written.py"
# XLA may fuse a written program in another order than the function's.
_TOLERANCES = {"value": 1e-5, "gradient": 1e-4}
_MOST_INSTRUCTIONS = 1.02


def _rows(names: Sequence[str], options: argparse.Namespace) -> list[dict[str, Any]]:
  """Returns what was found of models: from their files, or by writing and running them."""
  folders = {name: options.folder / name.replace("/", "_") for name in names}
  new = {name: folder for name, folder in folders.items() if not (folder / "row.json").exists()}
  for folder in new.values():
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
  if new:
    command = [sys.executable, "-m", "graftax.testing.written_models.write", str(options.modules or "")]
    command += [part for name, folder in new.items() for part in (name, str(folder))]
    with contextlib.suppress(subprocess.TimeoutExpired):
      subprocess.run(command, capture_output=True, check=False, timeout=options.seconds * len(new))
    facts = {name: _read(folder / "facts.json") for name, folder in new.items()}
    written = [folder for name, folder in new.items() if "error" not in facts[name]]
    ran = run_script(options.python, _RUN, written)
    for name, folder in new.items():
      row: dict[str, Any] = {"name": name, **facts[name]}
      if folder in ran:
        row["written_instructions"] = ran[folder].pop("instructions", None)
        row |= ran[folder]
      (folder / "row.json").write_text(json.dumps(row), encoding="utf-8")
  return [_read(folder / "row.json") for folder in folders.values()]


def _read(path: Path) -> dict[str, Any]:
  if not path.exists():
    return {"error": "the process ended, or took too long"}
  found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
  return found


def problem(row: dict[str, Any]) -> str:
  """Returns what is wrong with a model; "" if nothing is."""
  if "error" in row:
    return str(row["error"])
  for kind, most in _TOLERANCES.items():
    if kind in row and not row[kind] <= most:
      return f"{kind} differs by {row[kind]:.2g}"
  if row["written_instructions"] > _MOST_INSTRUCTIONS * row["instructions"]:
    return f"{row['written_instructions']} instructions instead of {row['instructions']}"
  return ""


def main() -> int:
  """Runs the command, and returns 1 if a model is not right."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("folder", type=Path, help="where models and rows are written")
  parser.add_argument("--python", default=sys.executable, help="an interpreter with jax and numpy alone")
  parser.add_argument("--modules", type=Path, help="a folder with modules of StableHLO")
  parser.add_argument("--num-modules", type=int, default=100)
  parser.add_argument("--batch", type=int, default=1, help="how many models a process writes")
  parser.add_argument("--only", default="", help="a part of the names of models")
  parser.add_argument("--seconds", type=float, default=600, help="for writing a model")
  options = parser.parse_args()
  rows: list[dict[str, Any]] = []
  names = [name for name in subject_names(options.modules, options.num_modules) if options.only in name]
  for start in range(0, len(names), options.batch):
    for row in _rows(names[start : start + options.batch], options):
      rows.append(row)
      print(f"{row['name']}: {problem(row) or 'right'}", file=sys.stderr, flush=True)
  right = [row for row in rows if "error" not in row]
  cells = [
    [
      row["name"],
      problem(row) or "right",
      row["lines"],
      row["functions"],
      f"{row['recovered']:.0%}",
      f"{row['written_instructions'] / max(1, row['instructions']):.3f}",
      f"{row['value']:.1g}",
      f"{row['gradient']:.1g}" if "gradient" in row else "",
    ]
    for row in right
  ]
  print(table(["model", "", "lines", "functions", "recovered", "instructions", "value", "gradient"], cells, 2))
  for row in rows:
    if problem(row):
      print(f"{row['name']}: {problem(row)}")
  wrong = sum(bool(problem(row)) for row in rows)
  print(f"{len(rows) - wrong} of {len(rows)} right")
  return int(wrong > 0)


if __name__ == "__main__":
  sys.exit(main())
