"""Rewrites custom calls of GPU solvers of JAX before 0.4.36 in the form of their typed FFI, which has lowerings.

The older form has its settings in the bytes of a C structure, and a status and work arrays as last results:
`cusolver_syevd(x) -> (vectors, values, info, work)` is `cusolver_syevd_ffi(x) {lower} -> (vectors, values, info)`.
"""

import dataclasses
import re
import struct
from collections.abc import Callable, Mapping

import numpy as np

from graftax.xla_call_module import ir
from graftax.xla_call_module.patterns.old_lapack import zeros_of

__all__ = ["with_typed_solvers"]

_Settings = Callable[[bytes, ir.Op], Mapping[str, bool] | None]


@dataclasses.dataclass(frozen=True, slots=True)
class _Old:
  """The older form of a routine.

  Attributes:
    target: the routine in the newer form.
    num_results: how many of the first results the newer form has.
    num_statuses: how many results after these are 0 after success; the newer form lacks them.
    num_operands: how many operands are arrays. Sizes may follow.
    settings: returns the settings of the newer form, or None if the bytes have no meaning.
  """

  target: str
  num_results: int
  num_statuses: int = 0
  num_operands: int = 1
  settings: _Settings = lambda data, op: {}


def _triangle(data: bytes, op: ir.Op) -> Mapping[str, bool] | None:
  """Returns which triangle is read, the second number: cuBLAS's and hipSOLVER's constants differ."""
  lower = {0: True, 1: False, 122: True, 121: False}.get(struct.unpack_from("<i", data, 4)[0])
  return None if lower is None else {"lower": lower}


def _gesvd(data: bytes, op: ir.Op) -> Mapping[str, bool] | None:
  """Returns the settings in `{type, batch, m, n, lwork: int32; jobu, jobvt: char}`."""
  job = data[20:22]
  if job not in (b"AA", b"SS", b"NN"):
    return None
  layouts, rank = op.attrs.get("operand_layouts"), len(op.types[0].shape)
  is_row_major = isinstance(layouts, tuple) and int(np.asarray(layouts[0]).reshape(-1)[0]) == rank - 1
  return {"full_matrices": job == b"AA", "compute_uv": job != b"NN", "transposed": is_row_major}


def _gesvdj(data: bytes, op: ir.Op) -> Mapping[str, bool] | None:
  """Returns the settings in `{type, batch, m, n, lwork, jobz, econ: int32}`."""
  job, econ = struct.unpack_from("<2i", data, 20)
  return {"full_matrices": not econ, "compute_uv": bool(job)} if {job, econ} <= {0, 1} else None


_SYEVD = _Old("syevd", 3, settings=_triangle)
_ROUTINES = {
  "solver_getrf": _Old("getrf", 3),
  "blas_getrf_batched": _Old("getrf", 3),
  "blas_getrf_batched_ffi": _Old("getrf", 3),
  "solver_geqrf": _Old("geqrf", 2, 1),
  "blas_geqrf_batched": _Old("geqrf", 2),
  "blas_geqrf_batched_ffi": _Old("geqrf", 2),
  "solver_orgqr": _Old("orgqr", 1, 1, 2),
  "solver_syevd": _SYEVD,
  "solver_syevj": _SYEVD,
  "solver_sytrd": _Old("sytrd", 5, settings=_triangle),
  "solver_gesvd": _Old("gesvd", 5, settings=_gesvd),
  "solver_gesvdj": _Old("gesvdj", 5, settings=_gesvdj),
}
_TARGET = re.compile(r"(?:cu|hip)((?:solver|blas)_\w+)")


def with_typed_solvers(module_ir: ir.ModuleIR) -> ir.ModuleIR:
  """Returns the module with the newer form of each call whose settings have a meaning."""
  if not any(_old_form(op) for function in module_ir.functions.values() for op in ir.walk(function.body)):
    return module_ir
  functions = {
    name: dataclasses.replace(function, body=_rewritten(function.body, _used(function.body)))
    for name, function in module_ir.functions.items()
  }
  return dataclasses.replace(module_ir, functions=functions)


def _old_form(op: ir.Op) -> _Old | None:
  match = _TARGET.fullmatch(op.attrs.text("call_target_name")) if op.name == "stablehlo.custom_call" else None
  return None if match is None else _ROUTINES.get(match[1])


def _used(body: ir.Region) -> set[int]:
  ops = list(ir.walk(body))
  regions = [body, *(region for op in ops for region in op.regions)]
  return {number for op in ops for number in op.operands} | {n for region in regions for n in region.returns}


def _rewritten(region: ir.Region, used: set[int]) -> ir.Region:
  ops: list[ir.Op] = []
  for op in region.ops:
    old = _old_form(op)
    found = None if old is None else _newer(op, old, used)
    ops += found or [dataclasses.replace(op, regions=tuple(_rewritten(inner, used) for inner in op.regions))]
  return dataclasses.replace(region, ops=tuple(ops))


def _newer(op: ir.Op, old: _Old, used: set[int]) -> list[ir.Op] | None:
  """Returns the newer form of a call and its statuses, or None if something about it is not as expected."""
  last = old.num_results + old.num_statuses
  if len(op.operands) < old.num_operands or len(op.results) < last or any(n in used for n in op.results[last:]):
    return None
  if not all(isinstance(kind, ir.TensorType) for kind in op.types[:last]):
    return None
  statuses = [i for i in range(old.num_results, last) if op.results[i] in used]
  if not all(op.types[i].is_static for i in statuses):
    return None
  try:
    settings = old.settings(_bytes(op), op)
  except (struct.error, UnicodeEncodeError, IndexError):
    settings = None
  if settings is None:
    return None
  library = "hip" if op.attrs.text("call_target_name").startswith("hip") else "cu"
  attrs = ir.Attributes({name: value for name, value in op.attrs.items() if name == "has_side_effect"})
  attrs["call_target_name"] = f"{library}solver_{old.target}_ffi"
  attrs["mhlo.backend_config"] = ir.Attributes(settings)
  for name, num in (("operand_layouts", old.num_operands), ("result_layouts", old.num_results)):
    if isinstance(layouts := op.attrs.get(name), tuple):
      attrs[name] = layouts[:num]
  call = dataclasses.replace(
    op,
    operands=op.operands[: old.num_operands],
    results=op.results[: old.num_results],
    types=op.types[: old.num_results],
    attrs=attrs,
  )
  return [call, *(zeros_of(op, i) for i in statuses)]


def _bytes(op: ir.Op) -> bytes:
  """Returns the settings of a call; bytes that are not UTF-8 are read as such, others as text."""
  config = op.attrs.get("backend_config", "")
  return config if isinstance(config, bytes) else str(config).encode()
