"""`graftax ops` and `graftax doctor`."""

import json
from typing import Annotated

import typer

from graftax.tools.cli.errors import reports_errors

__all__ = ["doctor_command", "ops_command"]

_AsJson = Annotated[bool, typer.Option("--json", help="Print everything as JSON, for other programs.")]


@reports_errors
def ops_command(
  name: Annotated[
    str, typer.Argument(metavar="[NAME]", help="An op, such as Conv2D, or a pattern, such as `*Scatter*`.")
  ] = "*",
  as_json: _AsJson = False,
) -> None:
  """Shows whether TensorFlow ops convert: the lowering, what it needs, and what works if there is none.

  - `graftax ops`

  - `graftax ops Conv2D`

  - `graftax ops "*Scatter*"`
  """
  import dataclasses

  from graftax.tools.console import results
  from graftax.tools.facts.facts_view import op_table, print_op
  from graftax.tools.facts.op_report import matching_ops, op_facts

  facts = [op_facts(op) for op in matching_ops(name)]
  if as_json:
    typer.echo(json.dumps([dataclasses.asdict(fact) for fact in facts], indent=2))
  elif len(facts) == 1:
    print_op(facts[0], results())
  else:
    results().print(op_table(facts))


@reports_errors
def doctor_command(
  as_json: _AsJson = False,
) -> None:
  """Shows versions, devices, and the optional libraries with the line that installs each."""
  import dataclasses

  from graftax.tools.console import results
  from graftax.tools.facts.doctor import diagnose
  from graftax.tools.facts.facts_view import print_diagnosis

  diagnosis = diagnose()
  if as_json:
    typer.echo(json.dumps(dataclasses.asdict(diagnosis), indent=2))
  else:
    print_diagnosis(diagnosis, results())
