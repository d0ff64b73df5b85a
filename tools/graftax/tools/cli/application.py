"""The command with all its subcommands."""

from typing import Annotated

import typer

from graftax.tools.cli.convert_command import convert_command
from graftax.tools.cli.export_command import export_command
from graftax.tools.cli.facts_commands import doctor_command, ops_command
from graftax.tools.cli.inspect_command import inspect_command
from graftax.tools.cli.rewrite_command import rewrite_command
from graftax.tools.cli.run_command import run_command
from graftax.tools.cli.source_command import source_command

__all__ = ["app", "main"]

_HELP = """
TensorFlow SavedModels as JAX programs, and JAX functions as SavedModels, without TensorFlow.

- `graftax inspect my_model`

- `graftax inspect https://tfhub.dev/google/yamnet/1`

- `graftax run my_model --input x=x.npy --output y.npz`

- `graftax convert my_model --out my_model_jax`

- `graftax export model.py:predict --input "x=float32[batch,3]" --out my_model`

- `graftax rewrite my_model --for tensorflow-2.16 --out my_older_model`

In Python the same is `graftax.savedmodel_io.load("my_model").convert()`.
"""

app = typer.Typer(
  name="graftax",
  help=_HELP,
  no_args_is_help=True,
  rich_markup_mode="markdown",
  add_completion=False,
  pretty_exceptions_enable=False,
)


def _print_version(value: bool) -> None:
  if value:
    from graftax.tools import __version__

    typer.echo(f"graftax {__version__}")
    raise typer.Exit


@app.callback()
def _options(
  version: Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
  ] = False,
) -> None:
  pass


app.command("inspect")(inspect_command)
app.command("run")(run_command)
app.command("convert")(convert_command)
app.command("source")(source_command)
app.command("export")(export_command)
app.command("rewrite")(rewrite_command)
app.command("ops")(ops_command)
app.command("doctor")(doctor_command)


def main() -> None:
  """Runs the command."""
  app()
