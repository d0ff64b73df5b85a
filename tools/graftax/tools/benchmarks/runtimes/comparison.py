"""Medians, spreads and ratios as a table, and as a file for the page of benchmarks."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

from rich import box
from rich.table import Table

from graftax.tools.benchmarks.ratios import ratios_to_best
from graftax.tools.benchmarks.runtimes.networks import NETWORKS
from graftax.tools.benchmarks.runtimes.turns import Times
from graftax.tools.pytrees import Json

__all__ = ["comparison_table", "is_busy", "stored_rows"]

_REST, _BUSY = 0.05, 0.1


def comparison_table(rows: Sequence[Times]) -> Table:
  """Returns the medians in ms, with half of the distance between the quartiles; * marks rows of a busy machine."""
  names = list(dict.fromkeys(name for row in rows for name in row.seconds))
  table = Table(title="ms, median and half of the distance between the quartiles", box=box.SIMPLE_HEAD)
  table.add_column("", no_wrap=True)
  for name in (*names, *ratios_to_best({}), "others"):
    table.add_column(name, justify="right")
  for row in rows:
    cells = [_cell(row.seconds.get(name)) for name in names]
    ratios = map(_ratio, _ratios(row).values())
    mark = "*" if is_busy(row) else ""
    table.add_row(f"{title(row.row)}{mark}", *cells, *ratios, f"{row.others:.0%}")
  means = [_ratio(_mean(column)) for column in zip(*(_ratios(row).values() for row in rows), strict=True)]
  table.add_section()
  table.add_row("geometric mean", *("" for _ in names), *means, "")
  return table


def title(row: str) -> str:
  """Returns "network:batch" as words."""
  name, _, batch = row.partition(":")
  return f"{NETWORKS[name].title}, batch {batch}"


def is_busy(row: Times) -> bool:
  """Returns whether other processes had a part of the machine that spoils the times."""
  return not row.others <= _BUSY


def _ratios(row: Times) -> dict[str, float | None]:
  return ratios_to_best({name: statistics.median(times) for name, times in row.seconds.items()})


def stored_rows(rows: Sequence[Times]) -> list[dict[str, Json]]:
  """Returns the rows as `graftax.tools.benchmarks.stored` reads them."""
  return [
    {
      "name": f"model-{row.row}",
      "title": title(row.row),
      "medians": {name: _quantities(times) for name, times in row.seconds.items()},
      "load": _load(row),
      "others": row.others,
    }
    for row in rows
  ]


def _load(row: Times) -> str:
  if is_busy(row):
    return f"busy: others had {row.others:.0%} of the cores"
  return "at rest" if row.others <= _REST else f"others had up to {_BUSY:.0%} of the cores"


def _quantities(times: Sequence[float]) -> Mapping[str, float]:
  low, _, high = statistics.quantiles(times, n=4)
  return {"time": statistics.median(times), "low": low, "high": high}


def _mean(ratios: Iterable[float | None]) -> float | None:
  known = [ratio for ratio in ratios if ratio is not None]
  return math.exp(statistics.fmean(map(math.log, known))) if known else None


def _cell(times: Sequence[float] | None) -> str:
  if not times:
    return ""
  low, _, high = statistics.quantiles(times, n=4)
  return f"{1e3 * statistics.median(times):.3g} ± {500 * (high - low):.2g}"


def _ratio(value: float | None) -> str:
  return "" if value is None else f"{value:.2f}"
