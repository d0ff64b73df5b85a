"""`graftax export`."""

import enum
from pathlib import Path
from typing import Annotated

import typer

from graftax.tools.cli.errors import reports_errors
from graftax.tools.cli.options import Constraints, platform_names

__all__ = ["export_command"]


class Lowering(enum.StrEnum):
  """What a JAX function becomes in TensorFlow."""

  STABLEHLO = "stablehlo"
  TF_OPS = "tf_ops"


@reports_errors
def export_command(
  function: Annotated[
    str,
    typer.Argument(
      metavar="FILE.py:FUNCTION", help="A JAX function in a Python file, which is run, or MODULE:FUNCTION."
    ),
  ],
  out: Annotated[Path, typer.Option("--out", "-o", help="Folder to create.")],
  inputs: Annotated[
    list[str] | None,
    typer.Option(
      "--input", "-i", metavar="NAME=DTYPE[SIZES]",
      help="Type and sizes of an argument, such as images=float32[batch,28,28,1]. A name allows any size.",
    ),
  ] = None,
  params: Annotated[
    str | None,
    typer.Option(
      metavar="FILE|NAME",
      help="Parameters, the function's first argument: a .npz or .safetensors file, or a name in the Python file.",
    ),
  ] = None,
  constraints: Constraints = None,
  signature: Annotated[str, typer.Option("--signature", "-s", help="Name of the signature.")] = "serving_default",
  frozen: Annotated[bool, typer.Option("--frozen", help="Write parameters that TensorFlow does not train.")] = False,
  gradient_order: Annotated[
    int, typer.Option(min=0, help="How often TensorFlow can differentiate the function.")
  ] = 2,
  target: Annotated[
    str | None,
    typer.Option(
      help="The TensorFlow that will load it, such as tensorflow-2.16; by default the oldest from 2.16 on that has "
      "everything in it. For a release that graftax does not know yet, what the newest that it knows reads. With "
      "--lowering tf_ops: onnx, tflite or tfjs, for a converter to one of these."
    ),
  ] = None,
  platforms: Annotated[
    str | None, typer.Option(help="Platforms to run on, separated by commas. By default cpu.")
  ] = None,
  lowering: Annotated[
    Lowering, typer.Option(help="What the function becomes: StableHLO, or plain ops for TF.js, ONNX and the like.")
  ] = Lowering.STABLEHLO,
  force: Annotated[bool, typer.Option("--force", "-f", help="Replace a SavedModel that is there.")] = False,
) -> None:  # fmt: skip
  """Writes a JAX function as a SavedModel, for TensorFlow and its servers.

  The parameters become variables. TensorFlow can train them, and its gradients are those of JAX.

  - `graftax export model.py:predict --input "x=float32[batch,3]" --out my_model`

  - `graftax export model.py:predict --input "x=[batch,3]" --params params.npz --out my_model`
  """
  from graftax.savedmodel_io import load
  from graftax.tools.commands.export_function import export_function
  from graftax.tools.console import remarks, results
  from graftax.tools.inspection.model_report import report_model
  from graftax.tools.inspection.model_view import parameters_summary, signature_table

  export_function(
    function,
    out,
    inputs=inputs or (),
    params=params,
    constraints=constraints or (),
    signature=signature,
    trainable=not frozen,
    gradient_order=gradient_order,
    target=target,
    platforms=_export_platforms(platforms, lowering),
    lowering="tf_ops" if lowering is Lowering.TF_OPS else "stablehlo",
    force=force,
  )
  report = report_model(load(out))
  results().print(signature_table([s for s in report.signatures if s.name == signature]))
  remarks().print(f"{out}: parameters {parameters_summary(report.parameters)}.", markup=False)


def _export_platforms(text: str | None, lowering: Lowering) -> list[str] | None:
  return None if text is None and lowering is Lowering.TF_OPS else platform_names(text or "cpu")
