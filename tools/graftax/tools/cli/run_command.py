"""`graftax run`."""

import enum
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from graftax.tools.cli.errors import reports_errors
from graftax.tools.cli.options import (
  AllowFilesIn,
  AllowHost,
  AllowHttp,
  Model,
  OptionalSignatureName,
  Sha256,
  Tags,
  WithCompilerOptions,
  load_options,
)

__all__ = ["run_command"]


class RunHeadWith(enum.StrEnum):
  """What runs the head of a split model."""

  NUMPY = "numpy"
  TENSORFLOW = "tensorflow"


@reports_errors
def run_command(
  model: Model,
  inputs: Annotated[
    list[str] | None,
    typer.Option(
      "--input", "-i", metavar="NAME=FILE",
      help="An input from FILE.npy, from FILE.npz:KEY, or all inputs from one FILE.npz. Strings from the lines of "
      "FILE.txt, or each from a whole file, such as an image.",
    ),
  ] = None,
  output: Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Write the outputs to this .npz, or one output to this .npy. Else print them."),
  ] = None,
  signature: OptionalSignatureName = None,
  tags: Tags = None,
  batch_size: Annotated[
    int | None, typer.Option(min=1, help="Examples to run at a time, if all at once need too much memory.")
  ] = None,
  seed: Annotated[int, typer.Option(help="For signatures that draw random numbers.")] = 0,
  max_sizes: Annotated[
    list[str] | None,
    typer.Option(
      "--max-size", metavar="NAME=N",
      help="Bound of a size that depends on data, by the name of a node or an op, such as Where=100.",
    ),
  ] = None,
  run_head_with: Annotated[
    RunHeadWith,
    typer.Option(help="What runs the part of the model for text and files; tensorflow has ops that graftax lacks."),
  ] = RunHeadWith.NUMPY,
  with_compiler_options: WithCompilerOptions = True,
  force: Annotated[bool, typer.Option("--force", "-f", help="Replace the file of --output, if it is there.")] = False,
  allow_files_in: AllowFilesIn = None,
  sha256: Sha256 = None,
  allow_http: AllowHttp = False,
  allow_host: AllowHost = None,
) -> None:  # fmt: skip
  """Runs a signature with JAX on arrays from files.

  - `graftax run my_model --input images=images.npy`

  - `graftax run my_model -i images=data.npz:x_test -o predictions.npz --batch-size 256`

  - `graftax run my_text_model -i text=sentences.txt`

  - `graftax run my_image_model -i image_bytes=cat.jpg -i image_bytes=dog.png`
  """
  from graftax.convert import keep_freed_memory
  from graftax.tools.commands.run_model import run_model

  keep_freed_memory()
  run_model(
    model,
    inputs or (),
    output,
    signature=signature,
    tags=tags,
    batch_size=batch_size,
    seed=seed,
    max_sizes=_sizes(max_sizes or ()),
    run_head_with="tensorflow" if run_head_with is RunHeadWith.TENSORFLOW else "numpy",
    force=force,
    with_compiler_options=with_compiler_options,
    load_options=load_options(allow_files_in, sha256, allow_http, allow_host),
  )


def _sizes(options: Sequence[str]) -> dict[str, int]:
  sizes = {}
  for option in options:
    name, _, number = option.rpartition("=")
    if not name or not number.isdecimal():
      raise typer.BadParameter(f"--max-size {option!r}; expected NAME=N, such as Where=100")
    sizes[name] = int(number)
  return sizes
