"""The options of `graftax rewrite`, with their help."""

import enum
from pathlib import Path
from typing import Annotated

import typer

__all__ = [
  "Batch",
  "Check",
  "Constraints",
  "ConsumerName",
  "Force",
  "FunctionInputs",
  "FunctionParams",
  "GradientOrder",
  "OutFolder",
  "Platforms",
  "RewrittenModel",
  "Shapes",
  "Weights",
  "WeightsPlace",
]


class WeightsPlace(enum.StrEnum):
  """Where the parameters of files of StableHLO are."""

  INSIDE = "inside"
  BESIDE = "beside"


RewrittenModel = Annotated[
  str,
  typer.Argument(
    metavar="MODEL",
    help="Folder of a SavedModel; a frozen graph (.pb, .pbtxt); the .meta file of a TF1 checkpoint; a file of "
    "StableHLO: what Module.save writes or jax.export serializes, a portable artifact, bytecode, or text; or "
    "FILE.py:FUNCTION, a JAX function.",
  ),
]
OutFolder = Annotated[Path, typer.Option("--out", "-o", help="Folder to create.")]
ConsumerName = Annotated[
  str,
  typer.Option(
    "--for", metavar="CONSUMER",
    help="What will run it: tensorflow (the installed one), a release such as tensorflow-2.13, tfjs, tflite, onnx, "
    "plain for plain TensorFlow ops, or stablehlo for IREE and other compilers, also in a version such as "
    "stablehlo-1.9.1. For a release that graftax does not know yet, what the newest that it knows reads.",
  ),
]  # fmt: skip
Platforms = Annotated[
  str | None,
  typer.Option(
    help="Platforms to run on, separated by commas. By default those that the model was made for. Not for tfjs, "
    "tflite and onnx."
  ),
]
GradientOrder = Annotated[
  int | None,
  typer.Option(
    min=0, help="Of a StableHLO file or a function: how often TensorFlow can differentiate it; by default 1."
  ),
]
FunctionInputs = Annotated[
  list[str] | None,
  typer.Option(
    "--input", "-i", metavar="NAME=DTYPE[SIZES]",
    help="Of a function: type and sizes of an argument, such as images=float32[batch,28,28,1].",
  ),
]  # fmt: skip
FunctionParams = Annotated[
  str | None,
  typer.Option(
    metavar="FILE|NAME", help="Of a function: its parameters, a .npz or .safetensors file, or a name in its file."
  ),
]
Batch = Annotated[
  str,
  typer.Option(metavar="SIZE|symbolic", help="For stablehlo: an open batch size; `symbolic` leaves it open."),
]
Shapes = Annotated[
  list[str] | None,
  typer.Option(
    "--shape", metavar="NAME=SIZES",
    help="For stablehlo: sizes of an input, such as images=8,224,224,3. A name allows any size, ? is the default.",
  ),
]  # fmt: skip
Constraints = Annotated[
  list[str] | None,
  typer.Option("--constraint", metavar="CONDITION", help="For stablehlo: a condition on open sizes: width>=2."),
]
Weights = Annotated[
  WeightsPlace,
  typer.Option(help="For stablehlo: parameters as constants inside of files, or as arguments, beside them."),
]
Check = Annotated[
  bool,
  typer.Option(
    "--check",
    help="Run each signature of the copy in the installed TensorFlow, and compare it with the original in JAX. A "
    "copy that differs stays where it is.",
  ),
]
Force = Annotated[bool, typer.Option("--force", "-f", help="Replace a SavedModel that is there.")]
