"""`graftax convert`."""

from pathlib import Path
from typing import Annotated

import typer

from graftax.tools.cli.errors import reports_errors
from graftax.tools.cli.options import (
  AllowFilesIn,
  AllowHost,
  AllowHttp,
  Constraints,
  Model,
  OptionalSignatureName,
  Sha256,
  Tags,
  WithCompilerOptions,
  load_options,
  platform_names,
)

__all__ = ["convert_command"]


@reports_errors
def convert_command(
  model: Model,
  out: Annotated[Path, typer.Option("--out", "-o", help="Folder to create.")],
  signature: OptionalSignatureName = None,
  tags: Tags = None,
  batch: Annotated[
    str, typer.Option(metavar="SIZE|symbolic", help="Batch size, if it is left open; `symbolic` allows any.")
  ] = "symbolic",
  shapes: Annotated[
    list[str] | None,
    typer.Option(
      "--shape", metavar="NAME=SIZES",
      help="Open sizes of an input, such as images=8,224,224,3. A name allows any size, ? is the default.",
    ),
  ] = None,
  constraints: Constraints = None,
  platforms: Annotated[
    str | None,
    typer.Option(
      help="Platforms to run on, separated by commas. By default cpu,cuda,tpu, or those that the model has code for."
    ),
  ] = None,
  gradient: Annotated[bool, typer.Option("--gradient", help="Include the derivative, for jax.grad.")] = False,
  with_compiler_options: WithCompilerOptions = True,
  force: Annotated[bool, typer.Option("--force", "-f", help="Replace the folder if it exists.")] = False,
  allow_files_in: AllowFilesIn = None,
  sha256: Sha256 = None,
  allow_http: AllowHttp = False,
  allow_host: AllowHost = None,
) -> None:  # fmt: skip
  """Writes a signature as a program that plain JAX loads, without graftax and without TensorFlow.

  The folder holds program.jax (jax.export, which JAX reads for six months), the same program as program.stablehlo.zip
  (which graftax-xla-call-module reads after that), parameters.safetensors, manifest.json and load.py, which loads them.

  - `graftax convert my_model --out my_model_jax`

  - `graftax convert my_model --out my_model_jax --shape images=batch,224,224,3 --gradient`
  """
  from rich import filesize

  from graftax.tools.commands.export_model import export_model
  from graftax.tools.console import remarks

  exported = export_model(
    model,
    out,
    signature=signature,
    tags=tags,
    batch=batch,
    shapes=shapes or (),
    constraints=constraints or (),
    platforms=None if platforms is None else platform_names(platforms),
    gradient=gradient,
    force=force,
    with_compiler_options=with_compiler_options,
    load_options=load_options(allow_files_in, sha256, allow_http, allow_host),
  )
  typer.echo(exported.code, nl=False)
  sizes = ", ".join(f"{name} {filesize.decimal(size)}" for name, size in exported.size_bytes.items())
  remarks().print(f"{exported.folder}: {sizes}. The code above is in {exported.folder / 'load.py'}.", markup=False)
