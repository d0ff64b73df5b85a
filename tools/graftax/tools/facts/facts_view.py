"""What `graftax ops` and `graftax doctor` print."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from graftax.tools.facts.doctor import Diagnosis
from graftax.tools.facts.op_report import OpFacts

__all__ = ["op_table", "print_diagnosis", "print_op"]


def op_table(facts: Sequence[OpFacts]) -> Table:
  """Returns one row per op."""
  table = _table("op", "JAX", "must be known", "dtypes", "gradient", "vmap", "symbolic", "bounded", "host")
  for fact in facts:
    table.add_row(
      Text(fact.op, "cyan"),
      Text("yes", "green") if fact.function else Text("raised") if fact.raised else Text("no", "dim"),
      ", ".join(fact.must_be_known),
      fact.dtypes,
      *(_short(result) for result in (fact.gradient, fact.vmap, fact.symbolic)),
      "yes" if fact.bounded else "",
      fact.host or "",
    )
  return table


def _short(result: str | None) -> str:
  return {None: "", "yes": "yes", "none": "none", "in programs": "programs"}.get(result, "no")


def print_op(fact: OpFacts, console: Console) -> None:
  """Prints all that is known about one op."""
  console.print(Text(fact.op, "bold cyan"))
  table = _facts()
  table.add_row("inputs", ", ".join(fact.inputs) or "none")
  table.add_row("outputs", ", ".join(fact.outputs) or "none")
  table.add_row("attributes", ", ".join(fact.attributes) or "none")
  if fact.reason is not None:
    table.add_row("JAX", Text(f"no: {fact.reason}", "red"))
    table.add_row("on the host, in split models", "no")
    console.print(table)
    return
  if fact.function is not None:
    table.add_row("JAX", Text(f"yes, {fact.function}", "green"))
    table.add_row("must be known while tracing", ", ".join(fact.must_be_known) or "nothing")
    table.add_row("sizes that depend on data", "carried under jit" if fact.bounded else "not carried under jit")
    if fact.pairs is not None:
      table.add_row("64-bit integers while 64-bit types are off", fact.pairs)
  elif fact.raised:
    table.add_row("JAX", "becomes If and While before it is lowered")
  else:
    table.add_row("JAX", "no, only on the host")
  with_jax = "with the JAX lowering" if fact.function else "no"
  table.add_row("on the host, in split models", f"yes, {fact.host}" if fact.host else with_jax)
  table.add_row("written for JAX primitives", ", ".join(fact.outward) or "no")
  _add_checks(table, fact)
  console.print(table)


def _add_checks(table: Table, fact: OpFacts) -> None:
  alone = sum(count for kind, count in fact.checks.items() if kind != "program")
  table.add_row("checks against TensorFlow", f"{alone} of the op alone, {fact.checks.get('program', 0)} of programs")
  untried = f"; TensorFlow also declares {fact.dtypes_without_check}" if fact.dtypes_without_check else ""
  table.add_row("dtypes with a check" if alone else "declared dtypes", (fact.dtypes or "none") + untried)
  for dtypes, error in fact.dtypes_refused.items():
    table.add_row(f"refused: {dtypes}", error)
  table.add_row("gradient", "TensorFlow has none" if fact.gradient == "none" else fact.gradient or "not compared")
  for name, result in {"jit": fact.jit, "vmap": fact.vmap, "symbolic shapes": fact.symbolic}.items():
    table.add_row(name, result or "not compared")
  for difference in fact.differs:
    table.add_row("differs from TensorFlow", difference)


def print_diagnosis(diagnosis: Diagnosis, console: Console) -> None:
  """Prints versions, devices and optional libraries."""
  console.print(Text(f"Python {diagnosis.python}", "bold"))
  table = _facts()
  for name, version in diagnosis.versions.items():
    table.add_row(name, Text("not installed", "dim") if version is None else version)
  table.add_row("devices", "\n".join(diagnosis.devices))
  if diagnosis.faster:
    table.add_row("faster on a CPU with", "\n".join(diagnosis.faster))
  console.print(table)
  console.print(Text("Optional libraries", "bold"))
  libraries = _table("library", "installed", "installed by")
  for library in diagnosis.libraries:
    installed = Text("no", "yellow") if library.version is None else Text(library.version, "green")
    libraries.add_row(library.name, installed, Text(library.install))
  console.print(libraries)


def _facts() -> Table:
  table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
  table.add_column(style="dim")
  table.add_column(overflow="fold")
  return table


def _table(*columns: str) -> Table:
  table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
  for column in columns:
    table.add_column(column, overflow="fold")
  return table
