"""The custom-call targets that are called, and what each accepts.

The contracts of jaxlib's kernels (`lapack_*_ffi` and others) say all that a kernel needs so that it stays inside its
buffers: they were read off the calls that JAX writes, from 0.4.35 to 0.12, and the documentation of LAPACK.
"""

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from graftax.xla_call_module.contracts.tensors import Kind, Matcher, Mismatch, Pattern, Sizes, patterns

__all__ = ["FLOATS", "REAL", "CustomCall", "Contract", "contracts", "cpu_targets", "unwritten_results"]


@dataclasses.dataclass(frozen=True, slots=True)
class CustomCall:
  """A custom call: types of operands and results, settings, and the pairs `(result, operand)` that share memory.

  `text` has the settings of older calls, which are not a dictionary.
  """

  target: str
  operands: tuple[Kind, ...]
  results: tuple[Kind, ...]
  config: Mapping[str, Any]
  aliases: tuple[tuple[int, int], ...] = ()
  text: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Contract:
  """What a target accepts.

  Attributes:
    operands: types of the operands.
    results: types of the results.
    elements: dtypes that the element types of the patterns stand for.
    settings: the names of the settings, each with the characters or the type that it may have.
    aliases: pairs `(result, operand)` that may share memory.
    relation: returns what else must hold of sizes and settings and does not, or None.
    is_column_major: whether matrices are column-major, as LAPACK's are. All else is row-major.
    has_batch: whether batch dimensions may precede the dimensions of the patterns.
    has_safe_data: whether the kernel stays inside its buffers for all values of the operands.
    num_old_scalars: how many scalar operands older versions of JAX add. They lift, but kernels do not accept them.
    initializes: what `initialize` has to do before the first call: "lapack", "sparse" or "".
  """

  operands: tuple[Pattern, ...]
  results: tuple[Pattern, ...]
  elements: Mapping[str, tuple[np.dtype, ...]]
  settings: Mapping[str, str] = dataclasses.field(default_factory=dict)
  aliases: frozenset[tuple[int, int]] = frozenset()
  relation: Callable[[Sizes, Mapping[str, Any]], str | None] = lambda sizes, config: None
  is_column_major: bool = True
  has_batch: bool = True
  has_safe_data: bool = True
  num_old_scalars: int = 0
  initializes: str = ""

  def check(self, call: CustomCall) -> None:
    """Raises Mismatch if a call does not fulfil the contract; sizes that are not known are assumed to fit."""
    matcher = Matcher(dict(self.elements), None if self.has_batch else ())
    matcher.match("operand", self.operands, call.operands)
    matcher.match("result", self.results, call.results)
    _check_settings(self.settings, call.config)
    if unexpected := set(call.aliases) - self.aliases:
      raise Mismatch(f"its result {min(unexpected)[0]} shares memory with operand {min(unexpected)[1]}")
    if problem := self.relation(matcher.sizes, call.config):
      raise Mismatch(problem)


def _check_settings(wanted: Mapping[str, str], config: Mapping[str, Any]) -> None:
  if config.keys() != wanted.keys():
    listed = ", ".join(sorted(wanted)) or "none"
    raise Mismatch(f"its settings are {', '.join(sorted(map(str, config))) or 'none'}; expected {listed}")
  for name, allowed in wanted.items():
    value = config[name]
    spelling = "i1" if isinstance(value, bool) else getattr(value, "spelling", type(value).__name__)
    if allowed in ("i1", "i32"):
      if spelling != allowed:
        raise Mismatch(f"its setting {name} = {value!r} has type {spelling}; expected {allowed}")
    elif spelling != "ui8" or not 0 <= value < 128 or chr(value) not in allowed:
      characters = " or ".join(f"{ord(character)} ({character!r})" for character in allowed)
      raise Mismatch(f"its setting {name} = {value!r} has type {spelling}; expected {characters} of type ui8")


@dataclasses.dataclass(frozen=True, slots=True)
class _Routine:
  """A routine of LAPACK in all its element types. Texts are patterns; `_complex` replaces them for complex types."""

  operands: str
  results: str
  aliases: str = "00"
  settings: Mapping[str, str] = dataclasses.field(default_factory=dict)
  complex_results: str | None = None
  relation: Callable[[Sizes, Mapping[str, Any]], str | None] = lambda sizes, config: None
  num_old_scalars: int = 0


def _holds(*conditions: tuple[str, int | None, str, int | None]) -> str | None:
  """Returns the first of the conditions `(name, value, "<=" or "==", bound)` on known sizes that does not hold."""
  for name, value, relation, bound in conditions:
    if value is not None and bound is not None and not (value <= bound if relation == "<=" else value == bound):
      return f"{name} is {value}; expected {'at most ' if relation == '<=' else ''}{bound}"
  return None


def _reflectors(sizes: Sizes, config: Mapping[str, Any]) -> str | None:
  k, n, m = sizes["k"], sizes["n"], sizes["m"]
  return _holds(("the number of columns", n, "<=", m), ("the number of reflectors", k, "<=", n))


def _product(sizes: Sizes, config: Mapping[str, Any]) -> str | None:
  side = sizes["m"] if config["left"] else sizes["n"]
  rows, columns, k = sizes["r"], sizes["c"], sizes["k"]
  return _holds(
    ("the length of the reflectors", rows, "==", side),
    ("the number of reflectors", k, "<=", columns),
    ("the number of reflectors", k, "<=", rows),
  )


def _singular_vectors(sizes: Sizes, config: Mapping[str, Any]) -> str | None:
  m, n, u, v = (sizes[name] for name in "mnuv")
  if m is None or n is None:
    return None
  full, thin = (m, n), (min(m, n), min(m, n))
  allowed = {"A": [full], "S": [thin], "N": [full, thin]}[chr(config["mode"])]
  if any((u is None or u == columns) and (v is None or v == rows) for columns, rows in allowed):
    return None
  return f"the sizes of the singular vectors are {u} and {v}; expected {' or '.join(map(str, allowed))}"


def _solve(sizes: Sizes, config: Mapping[str, Any]) -> str | None:
  side = sizes["m"] if chr(config["side"]) == "L" else sizes["n"]
  return _holds(("the size of the triangular matrix", sizes["a"], "==", side))


def _whole_range(sizes: Sizes, config: Mapping[str, Any]) -> str | None:
  return _holds(("low", int(config["low"]), "==", 1), ("high", int(config["high"]), "==", sizes["n"]))


_SVD = _Routine(
  "T[m,n]", "T[m,n] R[min(m,n)] T[m,u] T[v,n] int32[]", settings={"mode": "ASN"}, relation=_singular_vectors
)
_ORGQR = _Routine("T[m,n] T[k]", "T[m,n]", relation=_reflectors)
_ORMQR = _Routine("T[r,c] T[k] T[m,n]", "T[m,n]", "02", settings={"left": "i1", "transpose": "i1"}, relation=_product)
_SYEVD = _Routine("T[n,n]", "T[n,n] R[n] int32[]", settings={"mode": "V", "uplo": "LU"})
_SYTRD = _Routine("T[n,n]", "T[n,n] R[n] R[n-1] T[n-1] int32[]", settings={"uplo": "LU"})

_ROUTINES: dict[str, _Routine] = {
  "potrf": _Routine("T[n,n]", "T[n,n] int32[]", settings={"uplo": "LU"}),
  "getrf": _Routine("T[m,n]", "T[m,n] int32[min(m,n)] int32[]"),
  "geqrf": _Routine("T[m,n]", "T[m,n] T[min(m,n)]"),
  "geqp3": _Routine("T[m,n] int32[n]", "T[m,n] int32[n] T[min(m,n)]", "00 11"),
  "orgqr": _ORGQR,
  "ungqr": _ORGQR,
  "ormqr": _ORMQR,
  "unmqr": _ORMQR,
  "gesdd": _SVD,
  "gesvd": _SVD,
  "syevd": _SYEVD,
  "heevd": _SYEVD,
  "geev": _Routine(
    "T[n,n]",
    "T[n] T[n] C[n,n] C[n,n] int32[]",
    "",
    settings={"compute_left": "VN", "compute_right": "VN"},
    complex_results="T[n] T[n,n] T[n,n] int32[]",
  ),
  "gees": _Routine(
    "T[n,n]",
    "T[n,n] T[n,n] T[n] T[n] int32[] int32[]",
    settings={"mode": "VN", "sort": "N"},
    complex_results="T[n,n] T[n,n] T[n] int32[] int32[]",
  ),
  "gehrd": _Routine("T[n,n]", "T[n,n] T[n-1] int32[]", settings={"low": "i32", "high": "i32"}, relation=_whole_range),
  "sytrd": _SYTRD,
  "hetrd": _SYTRD,
  "gtsv": _Routine("T[n] T[n] T[n] T[n,k]", "T[n] T[n] T[n] T[n,k] int32[]", "00 11 22 33"),
  "trsm": _Routine(
    "T[a,a] T[m,n]",
    "T[m,n]",
    "01",
    settings={"side": "LR", "uplo": "LU", "trans_x": "NTC", "diag": "NU"},
    relation=_solve,
    num_old_scalars=1,
  ),
}

_LETTERS = {"s": "float32", "d": "float64", "c": "complex64", "z": "complex128"}
REAL = {"float32": "float32", "float64": "float64", "complex64": "float32", "complex128": "float64"}
_COMPLEX = {"float32": "complex64", "float64": "complex128", "complex64": "complex64", "complex128": "complex128"}
# In real types the routine is the first, in complex types the second.
_OF_REAL = frozenset({"orgqr", "ormqr", "syevd", "sytrd"})
_OF_COMPLEX = frozenset({"ungqr", "unmqr", "heevd", "hetrd"})


def _lapack(letter: str, name: str) -> Contract | None:
  is_complex = letter in "cz"
  routine = _ROUTINES.get(name)
  if routine is None or name in (_OF_REAL if is_complex else _OF_COMPLEX):
    return None
  if is_complex and routine.complex_results:
    routine = dataclasses.replace(routine, results=routine.complex_results)
  dtype = _LETTERS[letter]
  elements = {"T": (np.dtype(dtype),), "R": (np.dtype(REAL[dtype]),), "C": (np.dtype(_COMPLEX[dtype]),)}
  return _contract(routine, elements, "lapack")


def _contract(routine: _Routine, elements: Mapping[str, tuple[np.dtype, ...]], initializes: str) -> Contract:
  return Contract(
    patterns(routine.operands),
    patterns(routine.results),
    elements,
    routine.settings,
    frozenset((int(pair[0]), int(pair[1])) for pair in routine.aliases.split()),
    routine.relation,
    num_old_scalars=routine.num_old_scalars,
    initializes=initializes,
  )


FLOATS = tuple(np.dtype(name) for name in REAL)
_NUMBERS = (*FLOATS, np.dtype(np.int32), np.dtype(np.int64))
_INDICES = (np.dtype(np.int32), np.dtype(np.int64))


def _plain(operands: str, results: str, elements: Mapping[str, tuple[np.dtype, ...]], **fields: Any) -> Contract:
  return Contract(patterns(operands), patterns(results), elements, **fields)


def _nonempty(sizes: Sizes, config: Mapping[str, Any]) -> str | None:
  if sizes["r"] == 0:
    return "operand 1 is empty; expected one element more than the matrix has rows"
  return "operand 3 is empty, so every index is out of range" if sizes["n"] == 0 and sizes["z"] != 0 else None


def _sparse(operand: str, result: str) -> Contract:
  """A sparse matrix in rows, times a vector or a matrix. The kernel does not compare the indices with sizes."""
  return _plain(
    f"T[z] I[r] I[z] {operand}",
    result,
    {"T": _NUMBERS, "I": _INDICES},
    is_column_major=False,
    has_batch=False,
    has_safe_data=False,
    relation=_nonempty,
    initializes="sparse",
  )


_OTHERS: dict[str, tuple[Contract, ...]] = {
  "cpu_csr_sparse_dense_ffi": (_sparse("T[n]", "T[r-1]"), _sparse("T[n,k]", "T[r-1,k]")),
  "tridiagonal_solve_perturbed_ffi": (_plain("T[n] T[n] T[n] T[n,k]", "T[n,k]", {"T": FLOATS}, initializes="lapack"),),
}
_GPU_ROUTINES = ("geqrf", "getrf", "orgqr", "ormqr")


@functools.cache
def contracts(target: str) -> tuple[Contract, ...]:
  """Returns the contracts of a kernel; a call must fulfil one of them. None if the target is not in the table."""
  if target in _OTHERS:
    return _OTHERS[target]
  if match := re.fullmatch(r"lapack_([sdcz])([a-z0-9]+)_ffi", target):
    found = _lapack(match[1], match[2])
    return () if found is None else (found,)
  if match := re.fullmatch(r"(?:cu|hip)_threefry2x32_ffi", target):
    return (_plain("uint32[] uint32[] uint32[] uint32[]", "uint32[] uint32[]", {}),)
  if match := re.fullmatch(r"(?:cu|hip)solver_([a-z0-9]+)_ffi", target):
    return (_contract(_ROUTINES[match[1]], {"T": FLOATS}, ""),) if match[1] in _GPU_ROUTINES else ()
  return ()


# Routines that leave results as they are if a setting is "N": memory of the process. Real and complex types differ.
_UNWRITTEN: dict[str, dict[str, tuple[tuple[int, ...], tuple[int, ...]]]] = {
  "gesdd": {"mode": ((2, 3), (2, 3))},
  "gesvd": {"mode": ((2, 3), (2, 3))},
  "geev": {"compute_left": ((2,), (1,)), "compute_right": ((3,), (2,))},
  "gees": {"mode": ((1,), (1,))},
}


def unwritten_results(call: CustomCall) -> tuple[tuple[str, int], ...]:
  """Returns the results that a kernel does not write, each with the setting that says so."""
  match = re.fullmatch(r"lapack_([sdcz])([a-z0-9]+)_ffi", call.target)
  if match is None:
    return ()
  settings = _UNWRITTEN.get(match[2], {}).items()
  is_complex = match[1] in "cz"
  return tuple((name, i) for name, results in settings if call.config[name] == ord("N") for i in results[is_complex])


def cpu_targets() -> tuple[str, ...]:
  """Returns the kernels for CPUs that have a contract."""
  names = (f"lapack_{letter}{name}_ffi" for letter in _LETTERS for name in _ROUTINES)
  return (*(name for name in names if contracts(name)), *_OTHERS)
