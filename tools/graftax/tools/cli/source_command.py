"""`graftax source`."""

import enum
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
  load_options,
)

__all__ = ["source_command"]


class SourceStyle(enum.StrEnum):
  """What `graftax source` writes."""

  JAX = "jax"
  NNX = "nnx"


class HostCalls(enum.StrEnum):
  """What source calls for the parts of a model that run on the host."""

  GRAFTAX = "graftax"


@reports_errors
def source_command(
  model: Model,
  out: Annotated[Path, typer.Option("--out", "-o", help="The folder to create.")],
  signature: OptionalSignatureName = None,
  tags: Tags = None,
  batch: Annotated[
    str, typer.Option(help="Size of first dimensions that the signature leaves open: a number, or symbolic.")
  ] = "symbolic",
  shapes: Annotated[
    list[str] | None,
    typer.Option("--shape", metavar="NAME=SIZES", help="Sizes of an input, such as images=batch,224,224,3."),
  ] = None,
  constraints: Annotated[
    list[str] | None,
    typer.Option("--constraint", metavar="CONDITION", help="What holds for sizes, such as 'width>=2'."),
  ] = None,
  style: Annotated[SourceStyle, typer.Option(help="Functions, or modules of flax.nnx.")] = SourceStyle.JAX,
  host: Annotated[
    HostCalls | None,
    typer.Option(help="What the source calls for strings, tables of strings and images. Without it they are refused."),
  ] = None,
  inputs: Annotated[
    list[str] | None,
    typer.Option("--input", "-i", metavar="NAME=FILE", help="With --host, an example input as for `graftax run`."),
  ] = None,
  force: Annotated[bool, typer.Option("--force", "-f", help="Replace source that is in the folder.")] = False,
  allow_files_in: AllowFilesIn = None,
  sha256: Sha256 = None,
  allow_http: AllowHttp = False,
  allow_host: AllowHost = None,
) -> None:
  """Writes a signature as Python that imports only jax and numpy, or flax too, to read, change and own.

  The folder holds model.py, params.safetensors, README.md, params.py, which reads the parameters, and check.py, which
  runs the model on stored inputs and compares its results with those of the original.

  - `graftax source my_model -o my_model_source`

  - `graftax source my_model -o my_model_source --shape images=batch,224,224,3`

  - `graftax source my_model -o my_model_source --style nnx`

  - `graftax source my_text_model -o my_text_source --host graftax -i text=sentences.txt`
  """
  from graftax.tools.commands.source_folder import write_source
  from graftax.tools.console import remarks

  written = write_source(
    model,
    out,
    signature=signature,
    tags=tags,
    batch=batch,
    shapes=shapes or (),
    constraints=constraints or (),
    style=style.value,
    host=None if host is None else "graftax",
    inputs=inputs or (),
    force=force,
    load_options=load_options(allow_files_in, sha256, allow_http, allow_host),
  )
  definitions = "class" if style == "nnx" else "function"
  plural = "" if written.num_functions == 1 else "es" if style == "nnx" else "s"
  remarks().print(
    f"{written.folder / 'model.py'}: {written.num_lines} lines, {written.num_functions} {definitions}{plural}. "
    f"`python {written.folder / 'check.py'}` compares it with the original.",
    markup=False,
  )
