"""`python -m graftax.testing.hostile`: draw hostile files, read them in watched processes, print what came of it."""

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from graftax.testing.hostile.case import CaseId
from graftax.testing.hostile.registry import KINDS, templates
from graftax.testing.hostile.report import Report
from graftax.testing.hostile.run import Answer, CaseLimits, run_cases
from graftax.testing.hostile.shrink import shrink

__all__ = ["cases_of", "main"]


def main(arguments: Sequence[str] | None = None) -> int:
  """Runs the command; 1 if a case shows a fault."""
  options = _parser().parse_args(arguments)
  kinds = tuple(options.kinds.split(",")) if options.kinds else KINDS
  if options.list:
    print("\n".join(f"{kind}/{name}" for kind, name in templates(kinds)))
    return 0
  cases = list(map(CaseId.parse, options.replay or ())) or cases_of(
    kinds, options.cases, options.seed, options.template
  )
  report, limits = Report(), CaseLimits(seconds=options.seconds, memory_mib=options.memory)
  for answer in run_cases(
    cases, num_workers=options.workers, oracle=options.oracle, limits=limits, minutes=options.minutes
  ):
    if answer.is_fault and options.shrink:
      answer = shrink(answer, limits=limits)
    report.add(answer)
    if answer.is_fault or options.replay or options.verbose:
      print(_line(answer), flush=True)
  text = f"{report.table()}\n\n{report.groups()}"
  print(f"\n{text}" if report.faults else f"\n{report.table()}")
  if options.output:
    Path(options.output).write_text(f"{text}\n", encoding="utf-8")
  return int(bool(report.faults))


def cases_of(kinds: Sequence[str], count: int, seed: int, template: str | None = None) -> list[CaseId]:
  """Returns `count` cases, the same number of each template as far as it goes.

  Args:
    kinds: the kinds to draw from.
    count: how many cases.
    seed: the first seed. Runs with seeds that are far apart share no case.
    template: only this template.
  """
  names = [(kind, name) for kind, name in templates(kinds) if template in (None, name)]
  return [CaseId(*names[i % len(names)], seed + i // len(names)) for i in range(count if names else 0)]


def _line(answer: Answer) -> str:
  figures = f"{answer.seconds:.1f} s, {answer.memory_mib:.0f} MiB"
  return f"{answer.id} {answer.outcome} ({figures}) {answer.detail}\n    drawn: {'; '.join(answer.decisions)}"


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog="python -m graftax.testing.hostile", description="Hostile files, read in watched processes."
  )
  parser.add_argument("--cases", type=int, default=500, help="number of cases (default: 500)")
  parser.add_argument("--seed", type=int, default=0, help="seed of the first case of each template (default: 0)")
  parser.add_argument("--kinds", help="comma-separated kinds (default: all)")
  parser.add_argument("--template", help="only the template of this name")
  parser.add_argument("--workers", type=int, default=1, help="processes that run at a time (default: 1)")
  parser.add_argument("--oracle", action="store_true", help="let TensorFlow judge the graphs that are accepted")
  parser.add_argument("--seconds", type=float, default=10.0, help="processor time for a case (default: 10)")
  parser.add_argument("--memory", type=float, default=2048.0, metavar="MIB", help="memory for a case (default: 2048)")
  parser.add_argument("--minutes", type=float, default=math.inf, help="begin no case later than that")
  parser.add_argument("--shrink", action="store_true", help="leave out decisions that a fault does not need")
  parser.add_argument("--replay", action="append", metavar="ID", help="only the case kind/template/seed; prints it")
  parser.add_argument("--list", action="store_true", help="print the names of the templates")
  parser.add_argument("--verbose", action="store_true", help="print every case")
  parser.add_argument("--output", metavar="FILE", help="write the report to a file, too")
  return parser


if __name__ == "__main__":
  sys.exit(main())
