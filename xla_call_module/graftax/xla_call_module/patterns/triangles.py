"""Recognizes a select that keeps one triangle of a matrix and sets the other one to zero."""

from graftax.xla_call_module import analysis, ir
from graftax.xla_call_module.context import Context

__all__ = ["keeps_lower_triangle", "keeps_upper_triangle"]


def keeps_lower_triangle(context: Context, select: ir.Op) -> bool:
  """Returns whether an op selects its second operand where row >= column and zero elsewhere."""
  if select.name != "stablehlo.select" or not analysis.is_zero(context, select.operands[2]):
    return False
  return _mask(context, select.operands[0]) in (("GE", 0), ("GT", -1))


def keeps_upper_triangle(context: Context, op: ir.Op, position: int) -> bool:
  """Returns whether a select keeps its operand at `position` where row <= column and is zero elsewhere."""
  if not analysis.is_zero(context, op.operands[3 - position]):
    return False
  mask = _mask(context, op.operands[0])
  return mask in ((("LE", 0), ("LT", -1)) if position == 1 else (("GE", -1), ("GT", 0)))


def _mask(context: Context, number: int) -> tuple[str, int] | None:
  """Returns `(direction, shift)` of a mask that compares `row + shift` with `column`, or None for other masks."""
  defined = analysis.definitions(context)
  mask = defined.get(number)
  while mask is not None and mask.name in analysis.BROADCASTS:
    rank, axes = mask.type.rank, mask.attrs.integers("broadcast_dimensions")
    if axes != tuple(range(rank - len(axes), rank)):
      return None
    mask = defined.get(mask.operands[0])
  if mask is None or mask.name != "stablehlo.compare":
    return None
  rows, columns = (analysis.iota_offset(context, operand) for operand in mask.operands)
  if rows is None or columns is None or columns[0] != rows[0] + 1 or columns[0] != mask.types[0].rank - 1:
    return None
  return mask.attrs.text("comparison_direction"), rows[1] - columns[1]
