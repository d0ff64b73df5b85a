"""`python -m graftax.testing.op_facts`: run the generated cases, gather all evidence, and write the table."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from graftax.testing.op_facts.evidence import Evidence, append, evidence_in
from graftax.testing.op_facts.functions import functions_text
from graftax.testing.op_facts.generated import generated_evidence
from graftax.testing.op_facts.programs import program_evidence
from graftax.testing.op_facts.table import faults, table_text

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> int:
  """Runs the command; 1 if a check found a fault."""
  parser = argparse.ArgumentParser(prog="python -m graftax.testing.op_facts", description=__doc__)
  parser.add_argument("folder", type=Path, help="where the evidence is, also that of `recording`")
  parser.add_argument("--op", action="append", help="run only the cases of this op; may be repeated")
  parser.add_argument("--jobs", type=int, default=1, help="processes at a time (default: 1)")
  parser.add_argument(
    "--run", nargs="*", default=["generated", "programs"], choices=["generated", "programs"], help="what to run"
  )
  parser.add_argument("--functions", type=Path, metavar="FILE", help="write the table of StableHLO ops and primitives")
  parser.add_argument("--write", type=Path, metavar="FILE", help="write the table")
  options = parser.parse_args(args)
  if "generated" in options.run:
    record = _recorder(options.folder / "generated.jsonl")
    generated_evidence(options.op, options.jobs, record)
  if "programs" in options.run:
    program_evidence(_recorder(options.folder / "programs.jsonl"))
  if options.functions:
    options.functions.write_text(functions_text(), encoding="utf-8")
  evidence = list(evidence_in(options.folder))
  for fault in faults(evidence):
    print(fault)
  if options.write:
    options.write.write_text(table_text(evidence), encoding="utf-8")
  return 1 if faults(evidence) else 0


def _recorder(path: Path) -> Callable[[Evidence], None]:
  path.parent.mkdir(parents=True, exist_ok=True)
  path.unlink(missing_ok=True)
  return lambda line: append(path, [line])


if __name__ == "__main__":
  sys.exit(main())
