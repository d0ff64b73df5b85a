"""A `ModelReport` as tables."""

from collections.abc import Iterable, Sequence

from rich import box, filesize
from rich.console import Console
from rich.table import Table
from rich.text import Text

from graftax.graphdef_ir import PartialShape
from graftax.tools.inspection.abstract_trace import TraceResult
from graftax.tools.inspection.model_comparison import Comparison
from graftax.tools.inspection.model_report import (
  Blocker,
  FunctionReport,
  ModelReport,
  OpReport,
  ParameterReport,
  SignatureReport,
  TensorReport,
  Verdict,
)
from graftax.tools.inspection.module_report import ModuleReport
from graftax.tools.inspection.weights_report import WeightsReport

__all__ = [
  "blockers_of",
  "ops_summary",
  "parameters_summary",
  "print_comparison",
  "print_report",
  "signature_table",
  "verdict_text",
]

# How many names of updated variables are listed.
_NUM_NAMES = 3

# Keras's name for the variable with the seed of a layer; a number may follow.
_SEED = "seed_generator_state"


def print_report(report: ModelReport | WeightsReport | ModuleReport, console: Console, *, num_rows: int | None) -> None:
  """Prints a report.

  Args:
    report: what is known about a model, or about a file of weights or of StableHLO.
    console: where to print.
    num_rows: rows of the tables of functions and of parameters that signatures read; None prints all, and the other
      parameters too.
  """
  if isinstance(report, WeightsReport):
    _print_weights(report, console, num_rows)
    return
  if isinstance(report, ModuleReport):
    _print_module(report, console)
    return
  _print_heading(report, console)
  console.print(signature_table(report.signatures))
  if report.functions:
    console.print(_function_table(report.functions, num_rows))
  if report.parameters:
    console.print(Text(f"Parameters: {parameters_summary(report.parameters)}", "bold"))
    console.print(_parameter_table(report.parameters, num_rows))
  if report.assets:
    console.print(Text.assemble(("Assets  ", "bold"), ", ".join(report.assets)))
  _print_ops(report.ops, console)
  blockers = blockers_of(report)
  if blockers:
    console.print(_blocker_table(blockers))


def print_comparison(comparison: Comparison, console: Console, *, num_rows: int | None) -> None:
  """Prints what two models differ in, in at most `num_rows` rows."""
  same = ", ".join(f"{number} {kind}s" for kind, number in comparison.num_equal.items())
  console.print(Text(f"Compared with {comparison.path}: {same} are the same", "bold"))
  table = _table(None, "", "name", "here", "there")
  for difference in comparison.differences[:num_rows]:
    here, there = (Text("-", "dim") if side is None else Text(side) for side in (difference.here, difference.there))
    table.add_row(Text(difference.kind, "dim"), Text(difference.name, "cyan"), here, there)
  _add_rest(table, len(comparison.differences), num_rows)
  if comparison.differences:
    console.print(table)


def _print_weights(report: WeightsReport, console: Console, num_rows: int | None) -> None:
  console.print(Text(report.path, "bold"))
  console.print(Text(report.kind, "dim"))
  console.print()
  console.print(Text(f"Parameters: {parameters_summary(report.parameters)}", "bold"))
  console.print(_parameter_table(report.parameters, num_rows))


def _print_module(report: ModuleReport, console: Console) -> None:
  console.print(Text(report.path, "bold"))
  platforms = [f"for {', '.join(report.platforms)}"] if report.platforms else []
  console.print(Text(" · ".join([report.kind, *platforms]), "dim"))
  table = _table(None, "inputs", "outputs", "converts")
  verdict = Text("yes", "green") if report.plan == "lift" else Text(f"{report.plan}", "yellow")
  lines = [verdict, *(Text(problem, "yellow") for problem in report.problems)]
  table.add_row(_tensor_lines(report.inputs), _tensor_lines(report.outputs), Text("\n").join(lines))
  console.print(table)
  for line in report.works:
    console.print(Text(line), soft_wrap=True)


def signature_table(signatures: Sequence[SignatureReport]) -> Table:
  """Returns one row per signature, with what it takes, returns, and whether it can be converted."""
  table = _table("Signatures", "name", "inputs", "outputs", "converts")
  for signature in signatures:
    table.add_row(
      Text(signature.name, "cyan"),
      _tensor_lines(signature.inputs),
      _tensor_lines(signature.outputs),
      verdict_text(signature.verdict),
    )
  return table


def parameters_summary(parameters: Sequence[ParameterReport]) -> str:
  """Returns number and size of the parameters in one line."""
  used = [parameter for parameter in parameters if parameter.is_used]
  total = sum(parameter.size_bytes or 0 for parameter in parameters)
  summary = f"{len(parameters)} of {filesize.decimal(total)}"
  if len(used) < len(parameters):
    used_total = sum(parameter.size_bytes or 0 for parameter in used)
    summary += f", of which signatures use {len(used)} of {filesize.decimal(used_total)}"
  return summary


def ops_summary(ops: Sequence[OpReport]) -> str:
  """Returns the number of nodes and of different ops, and how many are supported, in one line."""
  supported = sum(op.supported for op in ops)
  return f"{sum(op.count for op in ops)} nodes of {len(ops)} ops, {supported} of them supported"


def _print_heading(report: ModelReport, console: Console) -> None:
  console.print(Text(report.path, "bold"))
  kind = f"{report.format} SavedModel" if report.kind == "SavedModel" else report.kind
  facts = [kind, f"tags {', '.join(report.tags) or 'none'}"]
  if report.tensorflow_version:
    facts.append(f"written by TensorFlow {report.tensorflow_version}")
  facts.append(f"graph {filesize.decimal(report.graph_size_bytes)}")
  console.print(Text(" · ".join(facts), "dim"))
  console.print()


def _function_table(functions: Sequence[FunctionReport], num_rows: int | None) -> Table:
  table = _table("Functions", "path", "traces", "converts")
  for function in functions[:num_rows]:
    name = Text.assemble((function.path, "cyan"), function.signature)
    for position, (trace, verdict) in enumerate(function.traces or (("none", None),)):
      table.add_row("" if position else name, Text(trace), "" if verdict is None else verdict_text(verdict))
  _add_rest(table, len(functions), num_rows)
  return table


def _parameter_table(parameters: Sequence[ParameterReport], num_rows: int | None) -> Table:
  table = _table(None, "name", "dtype", "shape")
  table.add_column("size", justify="right")
  table.add_column("")
  used = [parameter for parameter in parameters if parameter.is_used]
  # Optimizer slots, and the copies that Keras keeps: only counted, unless all are asked for.
  others = [parameter for parameter in parameters if not parameter.is_used]
  for parameter in [*used, *others] if num_rows is None else used[:num_rows]:
    remarks = [] if parameter.trainable else ["not trainable"]
    remarks += [] if parameter.has_value else ["no saved value"]
    remarks += [] if parameter.is_used else ["in no signature"]
    table.add_row(
      Text(parameter.name, "cyan" if parameter.is_used else "dim"),
      parameter.dtype,
      Text(str(PartialShape(parameter.shape))),
      "?" if parameter.size_bytes is None else filesize.decimal(parameter.size_bytes),
      Text(", ".join(remarks), "dim"),
    )
  _add_rest(table, len(used), num_rows)
  if others and num_rows is not None:
    table.add_row(Text(f"... {len(others)} that no signature reads, shown with --all", "dim"))
  return table


def _print_ops(ops: Sequence[OpReport], console: Console) -> None:
  console.print(Text.assemble((f"Ops: {ops_summary(ops)}", "bold")))
  missing = [op for op in ops if not op.supported]
  if missing:
    console.print(Text.assemble(("  no lowering  ", "bold red"), _counts(missing)))
  on_host = [op for op in ops if op.on_host]
  if on_host:
    console.print(Text.assemble(("  on the host  ", "yellow"), _counts(on_host)))
  console.print(
    Text.assemble(("  supported    ", "green"), _counts(op for op in ops if op.supported and not op.on_host))
  )


def blockers_of(report: ModelReport) -> tuple[Blocker, ...]:
  """Returns the ops that keep signatures or functions from being converted, each once, with its most frequent use."""
  verdicts = [signature.verdict for signature in report.signatures]
  verdicts += [verdict for function in report.functions for _, verdict in function.traces]
  found: dict[str, Blocker] = {}
  for blocker in (blocker for verdict in verdicts for blocker in verdict.blockers):
    if blocker.op not in found or blocker.count > found[blocker.op].count:
      found[blocker.op] = blocker
  return tuple(found[op] for op in sorted(found))


def _blocker_table(blockers: Sequence[Blocker]) -> Table:
  table = _table("What blocks, and what works instead", "op", "nodes", "why", "what works")
  for blocker in blockers:
    node, function = blocker.nodes[0]
    more = f" and {blocker.count - 1} more" if blocker.count > 1 else ""
    table.add_row(
      Text(blocker.op, "red"), Text(f"{node} in {function}{more}"), Text(blocker.reason), Text(blocker.remedy)
    )
  return table


def _counts(ops: Iterable[OpReport]) -> str:
  return ", ".join(f"{op.op} x{op.count}" if op.count > 1 else op.op for op in ops) or "none"


def _tensor_lines(tensors: Sequence[TensorReport]) -> Text:
  return Text("\n").join(Text.assemble(f"{tensor.name}: ", (str(tensor), "magenta")) for tensor in tensors)


def verdict_text(verdict: Verdict) -> Text:
  """Returns `yes`, `with split` or `no` with the reasons, and what tracing found."""
  missing = [op for op in verdict.unsupported_ops if op not in verdict.host_ops]
  reasons = [f"{', '.join(missing)} without a lowering"] if missing else []
  reasons += [f"{', '.join(verdict.host_ops)} on the host"] if verdict.host_ops else []
  reasons += [verdict.problem] if verdict.problem is not None else []
  if reasons:
    answer, style = ("with split", "yellow") if verdict.splits else ("no", "red")
    return Text("\n").join([Text(f"{answer}: {'; '.join(reasons)}", style), *_needs(verdict)])
  if verdict.trace is None:
    return Text("\n").join([Text("yes", "green"), *_needs(verdict)])
  loops = [Text(f"loop {loop}", "dim") for loop in verdict.trace.loops]
  return Text("\n").join([_trace_text(verdict.trace), *_needs(verdict), *loops])


def _needs(verdict: Verdict) -> list[Text]:
  """Returns what a call needs besides its inputs, and what it changes, one line each."""
  lines = ["needs rng="] if verdict.needs_rng else []
  if verdict.updates:
    more = f", and {len(verdict.updates) - _NUM_NAMES} more" if len(verdict.updates) > _NUM_NAMES else ""
    lines.append(f"updates {', '.join(verdict.updates[:_NUM_NAMES])}{more}")
  needs = [Text(line, "cyan") for line in lines]
  if any(name.rpartition("/")[2].startswith(_SEED) for name in verdict.updates):
    # In inference Keras's layers do not read their seeds.
    needs.append(
      Text("runs layers of Keras as in training; for inference, export a call with training=False", "yellow")
    )
  return needs


def _trace_text(trace: TraceResult) -> Text:
  if trace.problem is None:
    sizes = f" for any {', '.join(trace.open_sizes)}" if trace.open_sizes else ""
    return Text(f"yes; traces{sizes}", "green")
  if trace.example_sizes:
    sizes = ", ".join(f"{name}={size}" for name, size in zip(trace.open_sizes, trace.example_sizes, strict=True))
    return Text(f"yes; traces only with numbers such as {sizes}: {trace.problem}", "yellow")
  return Text(f"yes; does not trace: {trace.problem}", "red")


def _add_rest(table: Table, num_items: int, num_rows: int | None) -> None:
  if num_rows is not None and num_items > num_rows:
    table.add_row(Text(f"... {num_items - num_rows} more, shown with --all", "dim"))


def _table(title: str | None, *columns: str) -> Table:
  table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
  for column in columns:
    table.add_column(column, overflow="fold")
  return table
