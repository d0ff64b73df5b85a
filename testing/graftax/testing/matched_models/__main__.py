"""python -m graftax.testing.matched_models [--only NAME ...] prints a table; returns 1 if a pair is not right."""

import argparse
import sys
import time
from collections.abc import Sequence

from graftax.testing.matched_models.pairs import PAIRS, make_pair
from graftax.testing.matched_models.report import is_right, match_pair, table


def main(args: Sequence[str] | None = None) -> int:
  """Matches the pairs."""
  parser = argparse.ArgumentParser(prog="python -m graftax.testing.matched_models")
  parser.add_argument("--only", nargs="*", default=list(PAIRS), choices=list(PAIRS), metavar="NAME")
  options = parser.parse_args(args)
  outcomes = []
  for name in options.only:
    start = time.monotonic()
    model, library = PAIRS[name]
    outcomes.append(match_pair(model, library, make_pair(name)))
    print(f"{name}: {time.monotonic() - start:.0f} s, {outcomes[-1]}", file=sys.stderr, flush=True)
  print(table(outcomes))
  wrong = [outcome.name for outcome in outcomes if not is_right(outcome)]
  print(f"{len(outcomes) - len(wrong)} of {len(outcomes)} are right{': not ' + ', '.join(wrong) if wrong else ''}")
  return int(bool(wrong))


if __name__ == "__main__":
  sys.exit(main())
