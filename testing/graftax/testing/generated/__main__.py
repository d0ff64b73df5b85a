"""`python -m graftax.testing.generated`: draw cases, run them, and print what differs."""

import argparse
import sys
from collections.abc import Sequence

from graftax.testing.generated.case import CaseId
from graftax.testing.generated.recipes import ops_with_recipes
from graftax.testing.generated.report import Summary
from graftax.testing.generated.run import draw_case
from graftax.testing.generated.worker import run_isolated


def main(arguments: Sequence[str] | None = None) -> int:
  """Runs the command; 1 if a case differs that is not in the table of deviations."""
  options = _parser().parse_args(arguments)
  if options.replay:
    cases = [CaseId.parse(text) for text in options.replay]
    for case_id in cases:
      print(draw_case(case_id))
  else:
    structures = range(options.first, options.first + options.structures)
    cases = [
      CaseId(op, structure, values)
      for op in options.op or ops_with_recipes()
      for structure in structures
      for values in range(options.values)
    ]
  summary = Summary()
  for answer in run_isolated(cases, options.timeout, options.jobs):
    summary.add(answer)
    for difference in answer.differences:
      size = f"error {difference.error:.1e}{', undefined' if difference.undefined else ''}"
      print(f"{answer.id} {difference.kind} ({size}): {difference.detail}", flush=True)
    if options.replay and (answer.rejected or answer.known):
      print(f"{answer.id}: {answer.rejected or '; '.join(answer.known)}")
    if options.rejected and answer.rejected:
      print(f"{answer.id} rejected: {answer.rejected}", flush=True)
  print(summary.text(), flush=True)
  return int(summary.num_new > 0)


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog="python -m graftax.testing.generated", description="Random single-op cases against TensorFlow."
  )
  parser.add_argument("--op", action="append", help="only this op; may be repeated (default: all with a recipe)")
  parser.add_argument("--structures", type=int, default=3, help="structures of each op (default: 3)")
  parser.add_argument("--first", type=int, default=0, help="seed of the first structure (default: 0)")
  parser.add_argument("--values", type=int, default=4, help="sets of values for each structure (default: 4)")
  parser.add_argument("--replay", action="append", metavar="ID", help="only the case op/structure/values; prints it")
  parser.add_argument("--rejected", action="store_true", help="print the cases that TensorFlow rejects, too")
  parser.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS", help="for one case (default: 60)")
  parser.add_argument("--jobs", type=int, default=1, help="cases that run at a time (default: 1)")
  return parser


if __name__ == "__main__":
  sys.exit(main())
