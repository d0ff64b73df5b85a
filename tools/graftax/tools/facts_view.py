"""What `graftax ops` and `graftax doctor` print."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from graftax.tools.doctor import Diagnosis
from graftax.tools.op_report import OpFacts

__all__ = ["op_table", "print_diagnosis", "print_op"]

_NO_LOWERING = (
  "nobody has written its lowering; register one with @graftax.ops_jax.register, or have TensorFlow compile it with "
  "the option fallback='tensorflow'"
)


def op_table(facts: Sequence[OpFacts]) -> Table:
  """Returns one row per op."""
  table = _table("op", "JAX", "must be known", "bounded", "host")
  for fact in facts:
    table.add_row(
      Text(fact.op, "cyan"),
      Text("yes", "green") if fact.function else Text("no", "red" if fact.host is None else "dim"),
      ", ".join(fact.must_be_known),
      "yes" if fact.bounded else "",
      fact.host or "",
    )
  return table


def print_op(fact: OpFacts, console: Console) -> None:
  """Prints all that is known about one op."""
  console.print(Text(fact.op, "bold cyan"))
  table = _facts()
  table.add_row("inputs", ", ".join(fact.inputs) or "none")
  table.add_row("outputs", ", ".join(fact.outputs) or "none")
  table.add_row("attributes", ", ".join(fact.attributes) or "none")
  if fact.function is not None:
    table.add_row("JAX", Text(f"yes, {fact.function}", "green"))
    table.add_row("must be known while tracing", ", ".join(fact.must_be_known) or "nothing")
    table.add_row("sizes that depend on data", "carried under jit" if fact.bounded else "not carried under jit")
    if fact.pairs is not None:
      table.add_row("64-bit integers while 64-bit types are off", fact.pairs)
  else:
    table.add_row("JAX", Text(f"no: {fact.reason or _NO_LOWERING}", "red"))
  with_jax = "with the JAX lowering" if fact.function else "no"
  table.add_row("on the host, in split models", f"yes, {fact.host}" if fact.host else with_jax)
  console.print(table)


def print_diagnosis(diagnosis: Diagnosis, console: Console) -> None:
  """Prints versions, devices and optional libraries."""
  console.print(Text(f"Python {diagnosis.python}", "bold"))
  table = _facts()
  for name, version in diagnosis.versions.items():
    table.add_row(name, Text("not installed", "dim") if version is None else version)
  table.add_row("devices", "\n".join(diagnosis.devices))
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
