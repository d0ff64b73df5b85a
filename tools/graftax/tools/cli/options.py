"""Options that several commands have, with their help."""

from typing import Annotated

import typer

__all__ = [
  "AllowFilesIn",
  "AllowHost",
  "AllowHttp",
  "Constraints",
  "Model",
  "OptionalSignatureName",
  "Sha256",
  "Tags",
  "WithCompilerOptions",
  "load_options",
  "platform_names",
]

_PLATFORMS = ("cpu", "cuda", "rocm", "tpu")

Model = Annotated[
  str,
  typer.Argument(
    metavar="MODEL",
    help="Folder of the SavedModel, with saved_model.pb in it; a .tar.gz archive of one; a frozen graph (.pb, .pbtxt); "
    "the .meta file of a TF1 checkpoint; or the handle of a hub module, such as https://tfhub.dev/google/yamnet/1 or "
    "google/yamnet/tensorFlow2/yamnet/1.",
  ),
]
Tags = Annotated[
  list[str] | None,
  typer.Option(
    "--tag", help="Tag of the MetaGraph to read; repeat it for several. Not needed if there is one MetaGraph."
  ),
]
OptionalSignatureName = Annotated[
  str | None,
  typer.Option(
    "--signature", "-s", help="Name of the signature; by default serving_default, or default in hub modules."
  ),
]
AllowFilesIn = Annotated[
  list[str] | None,
  typer.Option(
    "--allow-files-in", metavar="FOLDER",
    help="A folder whose files the model may read, besides its own: to which its symbolic links or tables lead.",
  ),
]  # fmt: skip
Sha256 = Annotated[
  str | None, typer.Option("--sha256", metavar="DIGEST", help="The SHA-256 digest that the archive must have.")
]
Constraints = Annotated[
  list[str] | None,
  typer.Option("--constraint", metavar="CONDITION", help="A condition on named sizes, such as width>=2."),
]
WithCompilerOptions = Annotated[
  bool,
  typer.Option(
    "--compiler-options/--no-compiler-options", help="Compile with the options of XLA that were measured to be faster."
  ),
]
AllowHttp = Annotated[bool, typer.Option("--allow-http", help="Download over plain http, which others can change.")]
AllowHost = Annotated[
  list[str] | None,
  typer.Option("--allow-host", metavar="HOST", help="A host to which the server of the module may redirect."),
]


def load_options(
  allow_files_in: list[str] | None, sha256: str | None, allow_http: bool, allow_hosts: list[str] | None
) -> dict[str, object]:
  """Returns the arguments of `graftax.hub_io.load` that these options are."""
  return {
    "allow_files_in": allow_files_in or (),
    "sha256": sha256,
    "allow_http": allow_http,
    "allow_hosts": allow_hosts or (),
  }


def platform_names(text: str) -> list[str]:
  """Returns the platforms in a text that separates them by commas; others are wrong usage."""
  names = [name.strip() for name in text.split(",") if name.strip()]
  unknown = sorted(set(names) - set(_PLATFORMS))
  if unknown or not names:
    raise typer.BadParameter(f"unknown platforms {unknown}; expected some of {', '.join(_PLATFORMS)}")
  return names
