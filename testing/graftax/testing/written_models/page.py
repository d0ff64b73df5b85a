"""The table of written models, as text in Markdown."""

import re
from collections.abc import Mapping, Sequence

from graftax.testing.harness.errors import without_folders
from graftax.testing.harness.tables import table
from graftax.testing.pytrees import Json

__all__ = ["outcome", "page_text", "problem", "summary_text"]

Row = Mapping[str, Json]

# XLA may fuse a written program in another order than the function's.
_TOLERANCES = {"value": 1e-5, "gradient": 1e-4}
_MOST_INSTRUCTIONS = 1.02
_KINDS = {"zoo": "graftax.testing.zoo", "keras": "keras.applications", "stablehlo": "modules of StableHLO"}
_MOST_CHARACTERS = 300
_PAGE = """\
# Models written as source

Each model is written by `to_source`, run from its text in a process with jax and numpy alone, and compared with the
function that it was written from. Differences are relative to the largest element, or to 1 if that is larger: at most
{value:.0e} for values, and {gradient:.0e} for derivatives with respect to parameters and inputs. "No difference" counts
models whose results are equal as numbers. Compiled programs have at most {most} times the instructions. `make
written-models` writes this page and goes on with the rows of an earlier run, which older code may have written.

{versions}.

{summary}

## Not right

{problems}

## Each model

Lines and functions are those of the text. "Recovered" is the share of operations that became calls such as
`jax.nn.softmax`. "Instructions" are those of the compiled text, divided by those of the compiled function. A model
without a number for its gradient is compared in values only.

{models}
"""


def problem(row: Row) -> str:
  """Returns what is wrong with a model; "" if nothing is."""
  if "error" in row:
    return f"{'refused' if row.get('refused') else 'failed'}: {row['error']}"
  for kind in _TOLERANCES:
    if not _is_equal(row, kind):
      return f"wrong: {kind} differs by {row[kind]:.2g}"
  if not _is_short(row):
    return f"longer: {row['written_instructions']} instructions instead of {row['instructions']}"
  return ""


def outcome(row: Row) -> str:
  """Returns "right", "refused" (with a typed error), "failed", "wrong" (other results) or "longer" (too long)."""
  return problem(row).partition(":")[0] or "right"


def _is_equal(row: Row, kind: str) -> bool:
  return kind not in row or bool(row[kind] <= _TOLERANCES[kind])


def _is_short(row: Row) -> bool:
  return bool(row["written_instructions"] <= _MOST_INSTRUCTIONS * row["instructions"])


def summary_text(rows: Sequence[Row], names: Sequence[str]) -> str:
  """Returns a table of counts for each kind of model.

  Args:
    rows: what was found.
    names: all models, also those that were not run.
  """
  titles = ["", "models", "run", "refused", "failed", "written", "values equal", "no difference"]
  titles += ["gradients equal", "no difference", f"at most {_MOST_INSTRUCTIONS} times", "right"]
  cells: list[list[object]] = []
  for kind, title in [*_KINDS.items(), ("", "all")]:
    some = [row for row in rows if row["name"].startswith(kind)]
    run = [row for row in some if "error" not in row]
    outcomes = [outcome(row) for row in some]
    moved = [row for row in run if "gradient" in row]
    numbers: list[object] = [sum(name.startswith(kind) for name in names), len(some)]
    numbers += [outcomes.count("refused"), outcomes.count("failed"), len(run)]
    numbers += [sum(_is_equal(row, "value") for row in run), sum(row["value"] == 0 for row in run)]
    numbers.append(f"{sum(_is_equal(row, 'gradient') for row in moved)} of {len(moved)}")
    numbers += [sum(row["gradient"] == 0 for row in moved), sum(map(_is_short, run)), outcomes.count("right")]
    cells.append([title, *numbers])
  return table(titles, cells, 1)


def page_text(rows: Sequence[Row], names: Sequence[str], versions: str) -> str:
  """Returns the page.

  Args:
    rows: what was found.
    names: all models, in the order of the page.
    versions: of what ran.
  """
  found = {row["name"]: row for row in rows}
  known = [found[name] for name in names if name in found]
  problems = [f"- {row['name']}: {_literal(problem(row))}" for row in known if problem(row)]
  if missing := [name for name in names if name not in found]:
    problems.append(f"- Not run: {', '.join(missing)}")
  titles = ["model", "", "lines", "functions", "recovered", "instructions", "value", "gradient"]
  cells = [_cells(row) for row in known if "error" not in row]
  return _PAGE.format(
    **_TOLERANCES,
    most=_MOST_INSTRUCTIONS,
    versions=versions,
    summary=summary_text(known, names),
    problems="\n".join(problems) or "Nothing.",
    models=table(titles, cells, 2),
  )


def _cells(row: Row) -> list[object]:
  ratio = row["written_instructions"] / max(1, row["instructions"])
  texts = [f"{row[kind]:.1g}" if kind in row else "" for kind in _TOLERANCES]
  return [row["name"], outcome(row), row["lines"], row["functions"], f"{row['recovered']:.0%}", f"{ratio:.3f}", *texts]


def _literal(text: str) -> str:
  text = without_folders(text)
  short = text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]} ..."
  return f"`` {re.sub('`+', chr(39), ' '.join(short.split()))} ``"
