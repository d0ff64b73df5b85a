"""Command line of `python -m graftax.testing.call_tf`: runs the table and prints what came out right."""

import argparse
import sys
from collections.abc import Sequence

from graftax.testing.call_tf.check import check
from graftax.testing.call_tf.converters import CONVERTERS
from graftax.testing.call_tf.transformations import TRANSFORMATIONS
from graftax.testing.harness.results import CheckResult, counts_table, failures, signs_table
from graftax.testing.tensorflow_programs.functions import FUNCTIONS


def main(arguments: Sequence[str] | None = None) -> int:
  """Runs the command and returns its exit status: 1 if a check of the first converter failed."""
  options = _parser().parse_args(arguments)
  found: dict[str, list[CheckResult]] = {}
  for converter in options.converter or list(CONVERTERS):
    found[converter] = []
    for name in options.function or FUNCTIONS:
      results = check(FUNCTIONS[name], converter, options.transformation or tuple(TRANSFORMATIONS))
      found[converter] += results
      text = failures(results)
      if text:
        print(f"{converter}: {text}", file=sys.stderr, flush=True)
  tables = [counts_table(found, column="check")] + ([signs_table(found)] if options.rows else [])
  print("\n\n".join(tables))
  worst = {name: max((r.error for r in results if r.passed), default=0.0) for name, results in found.items()}
  print("\nlargest difference of equal results:", ", ".join(f"{name} {error:.1g}" for name, error in worst.items()))
  return int(any(not result.passed for result in next(iter(found.values()))))


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog="python -m graftax.testing.call_tf", description="Compare call_tf under transformations with TensorFlow."
  )
  parser.add_argument("--function", action="append", choices=list(FUNCTIONS), help="only this one; may be repeated")
  parser.add_argument("--transformation", action="append", choices=list(TRANSFORMATIONS), help="only this one")
  parser.add_argument("--converter", action="append", choices=list(CONVERTERS), help="only this one (default: both)")
  parser.add_argument("--rows", action="store_true", help="also print a row for each function")
  return parser


if __name__ == "__main__":
  sys.exit(main())
