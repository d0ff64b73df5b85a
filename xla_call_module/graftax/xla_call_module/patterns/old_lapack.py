"""Rewrites LAPACK's custom calls of JAX before 0.4.33 in the form of its typed FFI, which has lowerings and contracts.

The older form has sizes and flags as leading scalar operands, and work arrays and a status among the results:
`lapack_spotrf(lower, batch, n, x) -> (factor, info)` is `lapack_spotrf_ffi(x) {uplo = 'L'} -> (factor, info)`.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from graftax.xla_call_module import ir

__all__ = ["modernized", "zeros_of"]

_Settings = Callable[[Sequence[int]], Mapping[str, str]]


@dataclasses.dataclass(frozen=True, slots=True)
class _Old:
  """The older form of a routine.

  Attributes:
    num_scalars: how many leading operands are scalars.
    flags: the values that each operand may have that says what is computed; the other scalars are sizes.
    settings: the settings of the newer form, from the flags.
    results: which results the newer form has, for real types.
    statuses: results that are 0 after success and that the newer form lacks.
    complex_results: as `results`, for complex types.
    first_flag: the position of the first flag.
  """

  num_scalars: int
  flags: tuple[frozenset[int], ...]
  settings: _Settings
  results: tuple[int, ...]
  statuses: tuple[int, ...] = ()
  complex_results: tuple[int, ...] = ()
  first_flag: int = 0


def _triangle(flags: Sequence[int]) -> str:
  return "L" if flags[0] else "U"


def _solve(flags: Sequence[int]) -> Mapping[str, str]:
  left, lower, transposed, unit = flags
  return {
    "side": "L" if left else "R",
    "uplo": "L" if lower else "U",
    "trans_x": "NTC"[transposed],
    "diag": "U" if unit else "N",
  }


def _no_settings(flags: Sequence[int]) -> Mapping[str, str]:
  return {}


_BOOL, _TRANSPOSED, _VECTORS = frozenset({0, 1}), frozenset({0, 1, 2}), frozenset(map(ord, "NV"))
_EIGH = _Old(3, (_BOOL,), lambda flags: {"mode": "V", "uplo": _triangle(flags)}, (0, 1, 2))
_ORGQR = _Old(5, (), _no_settings, (0,), (1,))
_ROUTINES = {
  "potrf": _Old(3, (_BOOL,), lambda flags: {"uplo": _triangle(flags)}, (0, 1)),
  "getrf": _Old(3, (), _no_settings, (0, 1, 2)),
  "geqrf": _Old(4, (), _no_settings, (0, 1), (2,)),
  "orgqr": _ORGQR,
  "ungqr": _ORGQR,
  "syevd": _EIGH,
  "heevd": _EIGH,
  "gesdd": _Old(
    6, (_BOOL, _BOOL), lambda flags: {"mode": ("A" if flags[0] else "S") if flags[1] else "N"}, (0, 1, 2, 3, 4)
  ),
  "geev": _Old(
    4,
    (_VECTORS, _VECTORS),
    lambda flags: {"compute_left": chr(flags[0]), "compute_right": chr(flags[1])},
    (3, 4, 5, 6, 7),
    complex_results=(2, 3, 4, 5),
    first_flag=2,
  ),
  "trsm": _Old(8, (_BOOL, _BOOL, _TRANSPOSED, _BOOL), _solve, (0,)),
}
_TARGET = re.compile(r"(?:lapack|blas)_([sdcz])(\w+)")


def modernized(module_ir: ir.ModuleIR) -> ir.ModuleIR:
  """Returns the module with the newer form of each call whose flags are known."""
  if not any(_old_form(op) for function in module_ir.functions.values() for op in ir.walk(function.body)):
    return module_ir
  functions = {}
  for name, function in module_ir.functions.items():
    rewriter = _Rewriter(function)
    functions[name] = dataclasses.replace(function, body=rewriter.region(function.body))
  return dataclasses.replace(module_ir, functions=functions)


def _old_form(op: ir.Op) -> _Old | None:
  match = _TARGET.fullmatch(op.attrs.text("call_target_name")) if op.name == "stablehlo.custom_call" else None
  return None if match is None else _ROUTINES.get(match[2])


class _Rewriter:
  """Rewrites one function. A call is left as it is, and does not lift, if something about it is not as expected."""

  def __init__(self, function: ir.Function):
    ops = list(ir.walk(function.body))
    regions = [function.body, *(region for op in ops for region in op.regions)]
    self._known = {
      op.results[0]: np.asarray(op.attrs["value"])
      for op in ops
      if op.name == "stablehlo.constant" and op.type.shape == ()
    }
    self._used = {number for op in ops for number in op.operands} | {n for r in regions for n in r.returns}

  def region(self, region: ir.Region) -> ir.Region:
    ops: list[ir.Op] = []
    for op in region.ops:
      old = _old_form(op)
      found = None if old is None else self._newer(op, old)
      ops += found or [dataclasses.replace(op, regions=tuple(map(self.region, op.regions)))]
    return dataclasses.replace(region, ops=tuple(ops))

  def _newer(self, op: ir.Op, old: _Old) -> list[ir.Op] | None:
    match = _TARGET.fullmatch(op.attrs.text("call_target_name"))
    assert match is not None, "internal: an old form without a name"
    flags = self._flags(op, old)
    results = old.complex_results if match[1] in "cz" and old.complex_results else old.results
    rest = set(range(len(op.results))) - {*results, *old.statuses}
    statuses = [i for i in old.statuses if i < len(op.results) and op.results[i] in self._used]
    if (
      flags is None
      or len(op.operands) <= old.num_scalars
      or len(op.results) <= max(results)
      or any(op.results[i] in self._used for i in rest)
      or not all(isinstance(op.types[i], ir.TensorType) and op.types[i].is_static for i in statuses)
    ):
      return None
    if match[2] == "trsm" and self._known.get(op.operands[7]) != 1:
      return None  # the factor of the right-hand side, which JAX never uses
    settings = ir.Attributes({name: _character(value) for name, value in old.settings(flags).items()})
    attrs = ir.Attributes({name: value for name, value in op.attrs.items() if name in _KEPT})
    attrs["call_target_name"] = f"lapack_{match[1]}{match[2]}_ffi"
    attrs["mhlo.backend_config"] = settings
    layouts = {"operand_layouts": range(old.num_scalars, len(op.operands)), "result_layouts": results}
    for name, kept in layouts.items():
      layout = op.attrs.get(name)
      if isinstance(layout, tuple):
        attrs[name] = tuple(layout[i] for i in kept)
    call = dataclasses.replace(
      op,
      operands=op.operands[old.num_scalars :],
      results=tuple(op.results[i] for i in results),
      types=tuple(op.types[i] for i in results),
      attrs=attrs,
    )
    return [call, *(zeros_of(op, i) for i in statuses)]

  def _flags(self, op: ir.Op, old: _Old) -> list[int] | None:
    """Returns the flags of a call, or None if one of them is not known or has a value that the routine lacks."""
    found: list[int] = []
    for number, allowed in zip(op.operands[old.first_flag :], old.flags, strict=False):
      flag = self._known.get(number)
      if flag is None or flag.dtype.kind not in "iub" or int(flag) not in allowed:
        return None
      found.append(int(flag))
    return found if len(found) == len(old.flags) else None


_KEPT = frozenset({"has_side_effect"})


def _character(text: str) -> ir.TypedInt:
  code = ir.TypedInt(ord(text))
  code.spelling = "ui8"
  return code


def zeros_of(op: ir.Op, result: int) -> ir.Op:
  """Returns an op whose result is zeros, in place of a result of another op."""
  kind = op.types[result]
  value = np.zeros(kind.static_shape, kind.dtype)
  return ir.Op("stablehlo.constant", (), (op.results[result],), (kind,), ir.Attributes(value=value), (), op.location)
