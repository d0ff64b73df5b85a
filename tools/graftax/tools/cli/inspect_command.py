"""`graftax inspect`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graftax.tools.cli.errors import reports_errors
from graftax.tools.cli.options import AllowFilesIn, AllowHost, AllowHttp, Model, Sha256, Tags, load_options

if TYPE_CHECKING:
  from graftax.tools.inspection.model_comparison import Comparison
  from graftax.tools.inspection.model_report import Graphs, ModelReport

__all__ = ["inspect_command"]

# Rows of a table without --all.
_NUM_ROWS = 30
# The first bytes of what `html_report` writes.
_PAGE = b"<!doctype html>"


@reports_errors
def inspect_command(
  model: Model,
  tags: Tags = None,
  as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON, for other programs.")] = False,
  show_all: Annotated[
    bool,
    typer.Option(
      "--all", help="Print all functions and parameters: not the first 30, and not only those in signatures."
    ),
  ] = False,
  trace: Annotated[
    bool,
    typer.Option(
      "--trace", help="Also trace on shapes alone: name the node and the size that stop it, and what each loop becomes."
    ),
  ] = False,
  html: Annotated[
    Path | None,
    typer.Option(
      "--html", metavar="FILE",
      help="Write a page to FILE instead, with the graph by scopes; it needs no network. With --json too, print that.",
    ),
  ] = None,
  other_model: Annotated[
    str | None, typer.Option("--compare", metavar="MODEL", help="Also show what another model has or lacks.")
  ] = None,
  allow_files_in: AllowFilesIn = None,
  sha256: Sha256 = None,
  allow_http: AllowHttp = False,
  allow_host: AllowHost = None,
) -> None:  # fmt: skip
  """Shows a model's signatures, functions, parameters and ops, and whether they can be converted.

  `with split` means that a part of the model, such as text, runs on the host: use `graftax run` or SavedModel.split.

  For a checkpoint, a Keras file (.keras, .h5) or safetensors, it shows the weights; for a file of jax.export,
  Module.save or StableHLO, its inputs and how to run it.

  Reads no parameter's values, so it is quick for models of any size. With --trace it takes as long as jax.jit needs to
  trace every signature and function.

  - `graftax inspect my_model`

  - `graftax inspect my_model --trace`

  - `graftax inspect my_model --html report.html`

  - `graftax inspect my_model --compare my_older_model`

  - `graftax inspect my_model --json | jq '.ops[] | select(.supported | not)'`
  """
  import dataclasses

  from graftax.hub_io import load
  from graftax.savedmodel_io.writing.atomic import check_new_file
  from graftax.tools.console import progress, results
  from graftax.tools.errors import CommandError
  from graftax.tools.inspection.model_comparison import compare
  from graftax.tools.inspection.model_report import report_model, report_with_graphs
  from graftax.tools.inspection.module_report import report_module
  from graftax.tools.inspection.weights_report import report_weights

  if html is not None:
    check_new_file(html)
  with progress() as bar:
    bar.add_task(f"reading {model}", total=None)
    other = report_module(model) or report_weights(model, allow_files_in or ())
    options: Any = load_options(allow_files_in, sha256, allow_http, allow_host)
    found = report_with_graphs(load(model, tags or None, verify=False, **options), trace=trace) if not other else None
    comparison = None
    if other_model is not None and found is not None:
      bar.add_task(f"reading {other_model}", total=None)
      comparison = compare(found[0], report_model(load(other_model, verify=False, **options)))
  if other_model is not None and comparison is None:
    raise CommandError(f"--compare: {model} is {other.kind if other else 'no model'}; expected two models with graphs.")
  if html is not None:
    _write_page(html, found, comparison)
  report = found[0] if found is not None else other
  assert report is not None, "internal: a file is a model, weights or a module"
  if as_json:
    compared = {} if comparison is None else {"comparison": dataclasses.asdict(comparison)}
    typer.echo(json.dumps(report.to_json() | compared, indent=2))
  elif html is None:
    from graftax.tools.inspection.model_view import print_comparison, print_report

    print_report(report, results(), num_rows=None if show_all else _NUM_ROWS)
    if comparison is not None:
      print_comparison(comparison, results(), num_rows=None if show_all else _NUM_ROWS)


def _write_page(
  path: Path, model: "tuple[ModelReport, dict[str, Graphs]] | None", comparison: "Comparison | None"
) -> None:
  from graftax.tools.console import remarks
  from graftax.tools.errors import CommandError
  from graftax.tools.inspection.html import html_report

  if model is None:
    raise CommandError("--html shows models of TensorFlow; this file has none.")
  try:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_file() and not _is_page_or_empty(path):
      raise CommandError(f"--html {path}: exists, and is not a page; choose another name.")
    path.write_text(html_report(*model, comparison), encoding="utf-8")
  except OSError as e:
    raise CommandError(f"--html {path}: cannot be written ({e.strerror}); choose another name.") from e
  remarks().print(f"{path}: open it in a browser.", markup=False)


def _is_page_or_empty(path: Path) -> bool:
  with path.open("rb") as file:
    return file.read(len(_PAGE)).lower() in (_PAGE, b"")
