"""Command line of `python -m graftax.testing.differential`: runs the cases and prints a table."""

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence

from graftax.testing.differential.converters import CONVERTERS
from graftax.testing.differential.worker import run_isolated
from graftax.testing.harness.conversion_case import CHECKS
from graftax.testing.harness.results import CheckResult, counts_table, failures, totals
from graftax.testing.tensorflow_programs.catalogue import KINDS, all_cases


def main(arguments: Sequence[str] | None = None) -> int:
  """Runs the command and returns its exit status: 1 if a check of graftax failed, 2 if no case was selected."""
  options = _parser().parse_args(arguments)
  cases = [p for p in all_cases(options.kind or KINDS) if not options.case or p.name in options.case]
  if options.circle:
    cases = [case for case in cases if "jit" in case.checks]
  if not cases:
    print("no case matches --kind and --case", file=sys.stderr)
    return 2
  results: dict[str, list[CheckResult]] = {}
  for name in ["graftax", *options.against]:
    results[name] = []
    for result in run_isolated(cases, name, options.timeout, ("circle",) if options.circle else None):
      results[name].append(result)
      if not result.passed:
        print(f"{name}: {failures([result])}", file=sys.stderr)
  if options.json:
    found = {
      name: {**totals(own), "results": [dataclasses.asdict(result) for result in own]} for name, own in results.items()
    }
    print(json.dumps(found, indent=2))
  else:
    print(
      "\n\n".join(
        [counts_table(results), counts_table(results, "check", order=CHECKS), failures(results["graftax"])]
      ).rstrip()
    )
  return int(any(not result.passed for result in results["graftax"]))


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog="python -m graftax.testing.differential", description="Compare converted TensorFlow programs with TensorFlow."
  )
  parser.add_argument("--kind", action="append", choices=KINDS, help="only cases of this kind; may be repeated")
  parser.add_argument("--case", action="append", help="only the case of this name; may be repeated")
  others = [name for name in CONVERTERS if name != "graftax"]
  parser.add_argument("--against", action="append", default=[], choices=others, help="also run another converter")
  parser.add_argument(
    "--circle", action="store_true", help="run only the check `circle`, of all cases that JAX can compile"
  )
  parser.add_argument("--json", action="store_true", help="print all results as JSON instead of a table")
  parser.add_argument(
    "--timeout", type=float, default=180.0, metavar="SECONDS", help="time limit of one check (default: 180)"
  )
  return parser


if __name__ == "__main__":
  sys.exit(main())
