"""The page of `graftax inspect --html`."""

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files

from rich import filesize

from graftax.graphdef_ir import Function, Node, PartialShape
from graftax.tools.inspection.html.graph_data import graph_data
from graftax.tools.inspection.model_comparison import Comparison
from graftax.tools.inspection.model_report import (
  ModelReport,
  OpReport,
  ParameterReport,
  SignatureReport,
  TensorReport,
  Verdict,
)
from graftax.tools.inspection.model_view import blockers_of, ops_summary, parameters_summary, verdict_text

__all__ = ["html_report"]

_MOST_PARAMETERS = 2000


def html_report(
  report: ModelReport,
  graphs: Mapping[str, Sequence[tuple[Function, Sequence[Node]]]],
  comparison: Comparison | None = None,
) -> str:
  """Returns a page about a model: what it takes, needs and holds, its graph by scopes, and what blocks.

  Args:
    report: the report on the model.
    graphs: what `report_with_graphs` returns beside the report.
    comparison: what it differs in from another model.
  """
  here = files("graftax.tools.inspection.html")
  missing = [op.op for op in report.ops if not op.supported]
  on_host = [op.op for op in report.ops if op.on_host]
  # "<" would end the element early if it were in a name.
  traces = [signature.verdict.trace for signature in report.signatures]
  costs = [cost for trace in traces if trace is not None for cost in trace.costs if cost.scope]
  data = json.dumps(graph_data(graphs, missing, on_host, costs), separators=(",", ":")).replace("<", "\\u003c")
  sections = [
    ("signatures", "Signatures", _signatures(report)),
    ("functions", "Functions", _functions(report)),
    ("blockers", "What blocks, and what works instead", _blockers(report)),
    ("compared", "" if comparison is None else f"Compared with: {comparison.path}", _comparison(comparison)),
    ("graph-section", "Graph", _GRAPH),
    ("parameters", f"Parameters: {parameters_summary(report.parameters)}", _parameters(report.parameters)),
    ("ops", f"Ops: {ops_summary(report.ops)}", _ops(report.ops)),
  ]
  shown = [(anchor, title, body) for anchor, title, body in sections if body]
  links = "".join(f'<a href="#{anchor}">{escape(title.partition(":")[0])}</a>' for anchor, title, _ in shown)
  body = "".join(f'<h2 id="{anchor}">{escape(title)}</h2>{text}' for anchor, title, text in shown)
  return (
    f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(report.path)}</title>'
    '<meta name="viewport" content="width=device-width">'
    f"<style>{(here / 'report.css').read_text(encoding='utf-8')}</style></head><body><main>"
    f'<h1>{escape(report.path)}</h1><p class="soft">{escape(_facts(report))}</p><nav>{links}</nav>{body}</main>'
    f'<script type="application/json" id="data">{data}</script>'
    f"<script>{(here / 'report.js').read_text(encoding='utf-8')}</script></body></html>\n"
  )


_GRAPH = (
  '<p><input id="search" type="search" placeholder="Find nodes by name or op" aria-label="Find nodes"></p>'
  '<div id="found"></div><div id="graph" class="card"></div>'
)


def _facts(report: ModelReport) -> str:
  kind = f"{report.format} SavedModel" if report.kind == "SavedModel" else report.kind
  facts = [kind, f"tags {', '.join(report.tags) or 'none'}"]
  facts += [f"written by TensorFlow {report.tensorflow_version}"] if report.tensorflow_version else []
  return " · ".join([*facts, f"graph {filesize.decimal(report.graph_size_bytes)}"])


def _signatures(report: ModelReport) -> str:
  return "".join(map(_signature, report.signatures))


def _signature(signature: SignatureReport) -> str:
  verdict = signature.verdict
  lines = [("takes", _tensors(signature.inputs)), ("returns", _tensors(signature.outputs)), *_needs(verdict)]
  code = _code(signature)
  return (
    f'<div class="card"><h3>{escape(signature.name)} {_pill(verdict)}</h3>{_list(lines)}'
    + (f"<pre>{escape(code)}</pre>" if code else "")
    + "</div>"
  )


def _code(signature: SignatureReport) -> str:
  """Returns how the signature is called, if it can be converted."""
  name, verdict = signature.name, signature.verdict
  arguments = ", ".join(f"{tensor.name}={tensor.name}" for tensor in signature.inputs)
  if verdict.splits:
    return (
      f"head, body, params, tail = model.split({name!r})\noutputs = tail(jax.jit(body)(params, *head({arguments})))"
    )
  if verdict.problem is not None or verdict.unsupported_ops:
    return ""
  key = ", rng=jax.random.key(0)" if verdict.needs_rng else ""
  result = "outputs, params" if verdict.updates else "outputs, _"
  call = f"{result} = jax.jit(fn)(params{', ' if arguments else ''}{arguments}{key})"
  return f"fn, params = model.convert({name!r})\n{call}"


def _functions(report: ModelReport) -> str:
  rows = []
  for function in report.functions:
    for trace, verdict in function.traces:
      name = f"<code>{escape(function.path + function.signature)}</code>"
      cell = f'<td class="wide"><code>{escape(trace)}</code></td>'
      rows.append(f"<tr><td>{name}</td>{cell}<td>{_verdict(verdict)}</td></tr>")
  return _table(("function", "trace", "converts"), rows)


def _blockers(report: ModelReport) -> str:
  rows = []
  for blocker in blockers_of(report):
    places = "<br>".join(escape(f"{node} in {function}") for node, function in blocker.nodes)
    more = f"<br>and {blocker.count - len(blocker.nodes)} more" if blocker.count > len(blocker.nodes) else ""
    rows.append(
      f'<tr><td class="bad"><code>{escape(blocker.op)}</code></td><td class="mono">{places}{more}</td>'
      f"<td>{escape(blocker.reason)}</td><td>{escape(blocker.remedy)}</td></tr>"
    )
  return _table(("op", "nodes", "why", "what works"), rows)


def _comparison(comparison: Comparison | None) -> str:
  if comparison is None:
    return ""
  same = ", ".join(f"{number} {kind}s" for kind, number in comparison.num_equal.items())
  rows = []
  for difference in comparison.differences[:_MOST_PARAMETERS]:
    sides = [
      f"<td><code>{escape(side)}</code></td>" if side is not None else '<td class="soft">none</td>'
      for side in (difference.here, difference.there)
    ]
    style = "good" if difference.here is None else "bad" if difference.there is None else "warn"
    name = f'<td class="{style}"><code>{escape(difference.name)}</code></td>'
    rows.append(f'<tr>{name}<td class="soft kind">{difference.kind}</td>{"".join(sides)}</tr>')
  return f'<p class="soft">{escape(same)} are the same.</p>' + _table(("name", "", "this model", "the other"), rows)


def _parameters(parameters: Sequence[ParameterReport]) -> str:
  by_size = sorted(parameters, key=lambda parameter: -(parameter.size_bytes or 0))
  largest = max((parameter.size_bytes or 0 for parameter in parameters), default=0) or 1
  rows = []
  for parameter in by_size[:_MOST_PARAMETERS]:
    remarks = [] if parameter.trainable else ["not trainable"]
    remarks += [] if parameter.has_value else ["no saved value"]
    remarks += [] if parameter.is_used else ["in no signature"]
    size = "?" if parameter.size_bytes is None else filesize.decimal(parameter.size_bytes)
    width = 100 * (parameter.size_bytes or 0) / largest
    rows.append(
      f"<tr><td><code>{escape(parameter.name)}</code></td><td><code>{escape(parameter.dtype)}"
      f'{escape(str(PartialShape(parameter.shape)))}</code></td><td class="number">{size}</td>'
      f'<td class="bars"><div class="bar" style="width:{width:.1f}%"></div></td>'
      f'<td class="soft">{", ".join(remarks)}</td></tr>'
    )
  if len(by_size) > _MOST_PARAMETERS:
    rows.append(f'<tr><td class="soft" colspan="5">and {len(by_size) - _MOST_PARAMETERS} smaller ones</td></tr>')
  return _table(("name", "type", "size", "", ""), rows)


def _ops(ops: Sequence[OpReport]) -> str:
  most = max((op.count for op in ops), default=1)
  rows = []
  for op in ops:
    style, text = ("warn", "on the host") if op.on_host else ("good", "yes") if op.supported else ("bad", "no lowering")
    rows.append(
      f'<tr><td><code>{escape(op.op)}</code></td><td class="number">{op.count}</td>'
      f'<td class="bars"><div class="bar" style="width:{100 * op.count / most:.1f}%"></div></td>'
      f'<td class="{style}">{text}</td></tr>'
    )
  return _table(("op", "nodes", "", "converts"), rows)


def _tensors(tensors: Sequence[TensorReport]) -> str:
  return "<br>".join(f"<code>{escape(tensor.name)}: {escape(str(tensor))}</code>" for tensor in tensors) or "nothing"


def _needs(verdict: Verdict) -> list[tuple[str, str]]:
  lines = [("needs", "a key for random numbers, <code>rng=</code>")] if verdict.needs_rng else []
  if verdict.updates:
    lines.append(("updates", "<br>".join(f"<code>{escape(name)}</code>" for name in verdict.updates)))
  if verdict.trace is not None and verdict.trace.costs:
    total, sizes = verdict.trace.costs[0], zip(verdict.trace.open_sizes, verdict.trace.cost_sizes, strict=False)
    at = ", ".join(f"{escape(name)}={size}" for name, size in sizes)
    lines.append(
      ("costs", f"{_count(total.flops)} operations, {filesize.decimal(total.size_bytes)} moved {at and 'at ' + at}")
    )
  if verdict.splits or verdict.problem is not None or verdict.unsupported_ops or verdict.trace is not None:
    lines.append(("converts", _verdict(verdict)))
  return lines


def _count(number: int) -> str:
  for unit, name in ((10**12, " trillion"), (10**9, " billion"), (10**6, " million")):
    if number >= unit:
      return f"{number / unit:.1f}{name}"
  return f"{number:,}"


def _pill(verdict: Verdict) -> str:
  style, text = _state(verdict)
  return f'<span class="pill {style}">{text}</span>'


def _state(verdict: Verdict) -> tuple[str, str]:
  if verdict.splits:
    return "warn", "converts with split"
  if verdict.problem is not None or verdict.unsupported_ops:
    return "bad", "does not convert"
  return "warn" if verdict.trace is not None and verdict.trace.problem else "good", "converts"


def _verdict(verdict: Verdict) -> str:
  text = "<br>".join(map(escape, str(verdict_text(verdict)).splitlines()))
  return f'<span class="{_state(verdict)[0]}">{text}</span>'


def _list(lines: Iterable[tuple[str, str]]) -> str:
  return "<dl>" + "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in lines) + "</dl>"


def _table(head: Sequence[str], rows: Sequence[str]) -> str:
  if not rows:
    return ""
  return f"<table><tr>{''.join(f'<th>{name}</th>' for name in head)}</tr>{''.join(rows)}</table>"
