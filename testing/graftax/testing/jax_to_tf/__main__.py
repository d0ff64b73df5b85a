"""Command line of `python -m graftax.testing.jax_to_tf`: converts the functions and prints what came out right."""

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from graftax.testing.harness.results import CheckResult, counts_table, failures, signs_table
from graftax.testing.jax_functions.catalogue import KINDS, all_cases
from graftax.testing.jax_to_tf.check import FORMS
from graftax.testing.jax_to_tf.converters import CONVERTERS
from graftax.testing.jax_to_tf.routes import ROUTES
from graftax.testing.jax_to_tf.worker import run_isolated


def main(arguments: Sequence[str] | None = None) -> int:
  """Runs the command and returns its exit status: 1 if a check of the first converter failed, 2 if nothing matches."""
  options = _parser().parse_args(arguments)
  names = [
    name
    for name in all_cases(options.kind or KINDS)
    if not options.function or name in options.function or name.partition("/")[2] in options.function
  ]
  if not names:
    print("no function matches --kind and --function", file=sys.stderr)
    return 2
  found: dict[str, list[CheckResult]] = {}
  for converter in options.converter or list(CONVERTERS):
    routes = [route for route in options.route or ROUTES if converter in ROUTES[route].converters]
    found[converter] = []
    for name, results in run_isolated(names, converter, routes, options.form or FORMS, options.timeout):
      found[converter] += results
      _report_progress(converter, name, results, options.verbose)
  if options.json:
    plain = {name: [dataclasses.asdict(result) for result in results] for name, results in found.items()}
    options.json.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
  tables = [counts_table(found), counts_table(found, "check")] + ([signs_table(found)] if options.rows else [])
  print("\n\n".join(tables))
  return int(any(not result.passed for result in next(iter(found.values()))))


def _report_progress(converter: str, name: str, results: Sequence[CheckResult], verbose: bool) -> None:
  text = failures(results)
  if verbose and not text:
    text = f"{name}: {len(results)} checks in {sum(result.seconds for result in results):.1f} s"
  if text:
    print(f"{converter}: {text}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog="python -m graftax.testing.jax_to_tf", description="Compare JAX functions in TensorFlow with JAX."
  )
  parser.add_argument("--kind", action="append", choices=KINDS, help="only functions of this kind; may be repeated")
  parser.add_argument("--function", action="append", help="only the function of this name; may be repeated")
  parser.add_argument("--route", action="append", choices=list(ROUTES), help="only this route; may be repeated")
  parser.add_argument("--form", action="append", choices=FORMS, help="only static or only symbolic shapes")
  parser.add_argument(
    "--converter", action="append", choices=list(CONVERTERS), help="only this converter; may be repeated (default: all)"
  )
  parser.add_argument("--rows", action="store_true", help="also print a row for each function")
  parser.add_argument("--verbose", action="store_true", help="also name the functions that are right, as they are done")
  parser.add_argument("--json", type=Path, metavar="FILE", help="write all results to this file")
  parser.add_argument(
    "--timeout", type=float, default=120.0, metavar="SECONDS", help="time limit of one check (default: 120)"
  )
  return parser


if __name__ == "__main__":
  sys.exit(main())
