"""`graftax rewrite`."""

import os
from collections.abc import Sequence
from pathlib import Path

from graftax.tools.cli.errors import reports_errors
from graftax.tools.cli.options import AllowFilesIn, platform_names
from graftax.tools.cli.rewrite_options import (
  Batch,
  Check,
  Constraints,
  ConsumerName,
  Force,
  FunctionInputs,
  FunctionParams,
  GradientOrder,
  OutFolder,
  Platforms,
  RewrittenModel,
  Shapes,
  Weights,
  WeightsPlace,
)

__all__ = ["rewrite_command"]


@reports_errors
def rewrite_command(
  model: RewrittenModel,
  out: OutFolder,
  consumer: ConsumerName = "tensorflow",
  platforms: Platforms = None,
  gradient_order: GradientOrder = None,
  inputs: FunctionInputs = None,
  params: FunctionParams = None,
  batch: Batch = "symbolic",
  shapes: Shapes = None,
  constraints: Constraints = None,
  weights: Weights = WeightsPlace.INSIDE,
  check: Check = False,
  force: Force = False,
  allow_files_in: AllowFilesIn = None,
) -> None:
  """Writes a model for another TensorFlow, other platforms, as plain ops, or as StableHLO.

  For models that TensorFlow refuses with "XlaCallModule with version 10 is not supported", "The current platform CPU is
  not among the platforms required by the module" or "Cannot deserialize computation", and for converters that do not
  read StableHLO. All else in a SavedModel stays as it is: signatures, variables, tables, assets, derivatives.

  - `graftax rewrite my_model --for tensorflow-2.15 --out my_older_model`

  - `graftax rewrite my_model --platforms cpu --out my_cpu_model --check`

  - `graftax rewrite my_model --for onnx --out my_plain_model`

  - `graftax rewrite program.jax --for tensorflow-2.18 --out my_model`

  - `graftax rewrite my_model --for stablehlo --batch 8 --out my_stablehlo`

  - `graftax rewrite model.py:apply --for onnx --input "x=float32[1,8]" --params weights.npz --out my_plain_model`
  """
  from graftax.tools.commands.compiled_files import FileOptions
  from graftax.tools.commands.rewrite_model import rewrite_model
  from graftax.tools.console import progress, remarks
  from graftax.tools.errors import CommandError

  if check and (consumer.startswith("stablehlo") or not os.path.exists(model)):
    raise CommandError("--check runs a copy of a model or of a StableHLO file in TensorFlow; leave it out.")
  with progress() as bar:
    bar.add_task(f"rewriting {model}", total=None)
    done = rewrite_model(
      model,
      out,
      consumer,
      platforms=None if platforms is None else platform_names(platforms),
      gradient_order=gradient_order,
      force=force,
      allow_files_in=allow_files_in or (),
      inputs=inputs or (),
      params=params,
      files=FileOptions(
        batch, tuple(shapes or ()), tuple(constraints or ()), "beside" if weights is WeightsPlace.BESIDE else "inside"
      ),
    )
    if check:
      bar.add_task(f"running {out} in TensorFlow", total=None)
    found = _differences_of_copy(model, out, done, allow_files_in or ()) if check else []
  for line in (f"{out}: {done}", *found):
    remarks().print(line, markup=False)


def _differences_of_copy(model: str, out: Path, done: str, allow_files_in: Sequence[str]) -> list[str]:
  """Runs a rewritten model in TensorFlow and returns a line for each signature."""
  from graftax.tools.commands.check_rewritten import check_rewritten

  try:
    checked = check_rewritten(model, out, allow_files_in=allow_files_in)
  except Exception as e:
    e.add_note(f"{out}: {done}. The copy stays there, not confirmed.")
    raise
  return [
    f"{signature.name}: not run: an input is not numbers"
    if signature.difference is None
    else f"{signature.name}: as the original, within {signature.difference:.1e}"
    for signature in checked
  ]
