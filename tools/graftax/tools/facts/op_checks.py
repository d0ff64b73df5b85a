"""What checks against TensorFlow showed about each op: the table op_checks.json, which `make op-checks` renews."""

import dataclasses
import functools
import json
from collections.abc import Mapping
from importlib import resources

__all__ = ["OpChecks", "checks_of"]


@dataclasses.dataclass(frozen=True, slots=True)
class OpChecks:
  """What checks against TensorFlow's CPU kernels showed about an op.

  Attributes:
    dtypes: the dtypes of each type attribute with which a value agreed.
    refused: our errors for dtypes that TensorFlow runs, by the dtypes.
    transforms: for `jit`, `vmap` and `symbolic`: True if a check agreed, or our error if each was refused. A transform
      that no check tried is missing.
    gradient: True if a gradient agreed, our error if each was refused, None if no check compared one.
    no_gradient: whether TensorFlow has no gradient of the floating-point inputs that were tried.
    deviations: known differences from TensorFlow.
    checks: the number of checks of the op alone (`raw_op`, `generated`) and of programs that contain it (`program`).
  """

  dtypes: Mapping[str, tuple[str, ...]]
  refused: Mapping[str, str]
  transforms: Mapping[str, bool | str]
  gradient: bool | str | None
  no_gradient: bool
  deviations: tuple[str, ...]
  checks: Mapping[str, int]

  @property
  def only_in_programs(self) -> bool:
    """Whether no check calls the op alone."""
    return set(self.checks) == {"program"}


def checks_of(op: str) -> OpChecks | None:
  """Returns what is known of an op, or None if no check ran it."""
  return _table().get(op)


@functools.cache
def _table() -> Mapping[str, OpChecks]:
  text = resources.files("graftax.tools.facts").joinpath("op_checks.json").read_text(encoding="utf-8")
  return {
    op: OpChecks(
      dtypes={attr: tuple(found) for attr, found in row.get("dtypes", {}).items()},
      refused=row.get("refused", {}),
      transforms=row.get("transforms", {}),
      gradient=row.get("gradient"),
      no_gradient=row.get("no_gradient", False),
      deviations=tuple(row.get("deviations", ())),
      checks=row["checks"],
    )
    for op, row in json.loads(text).items()
  }
