"""Targets that are not kernels: XLA or its StableHLO importer replaces them while it compiles, or they annotate."""

import re
from collections.abc import Callable

import numpy as np

from graftax.xla_call_module.contracts.kernels import FLOATS, REAL, CustomCall
from graftax.xla_call_module.contracts.tensors import Matcher, Mismatch, Sizes, patterns

__all__ = ["COMPILED", "REFINED", "WITH_TEXT"]


def _same(call: CustomCall) -> None:
  """Checks a target that returns its operands."""
  if call.operands != call.results:
    kinds = (", ".join(map(str, kinds)) for kinds in (call.operands, call.results))
    raise Mismatch("its operands are ({}) and its results ({}); expected the same types".format(*kinds))


def _one(call: CustomCall) -> None:
  _same(call)
  if len(call.operands) != 1:
    raise Mismatch(f"it has {len(call.operands)} operands; expected 1")


def _sink(call: CustomCall) -> None:
  if call.results:
    raise Mismatch(f"it has {len(call.results)} results; expected none")


def _top_k(call: CustomCall) -> None:
  if len(call.operands) != 1 or len(call.results) != 2:
    raise Mismatch(f"it has {len(call.operands)} operands and {len(call.results)} results; expected 1 and 2")
  (x,), (values, order) = call.operands, call.results
  fits = (
    x.shape
    and values.dtype == x.dtype
    and order.dtype == np.int32
    and order.shape == values.shape
    and len(values.shape) == len(x.shape)
    and values.shape[:-1] == x.shape[:-1]
    and values.shape[-1] is not None
    and (x.shape[-1] is None or values.shape[-1] <= x.shape[-1])
  )
  if not fits:
    raise Mismatch(f"operand {x} with results {values} and {order}; expected at most as many along the last dimension")


def _assertion(call: CustomCall) -> None:
  _sink(call)
  if not call.operands or call.operands[0].dtype != np.bool_ or call.operands[0].shape:
    raise Mismatch("its first operand is not a boolean scalar")


def _qr(call: CustomCall) -> None:
  _match(call, "T[m,n]", "T[m,n] T[min(m,n)]")


# Whether the lower triangle is read, whether eigenvalues are sorted, the most sweeps, and the tolerance.
_EIGH_SETTINGS = re.compile(r"[01],[01],\d{1,4},\d+(\.\d+)?(e-?\d+)?")


def _eigh(call: CustomCall) -> None:
  if not _EIGH_SETTINGS.fullmatch(call.text):
    raise Mismatch(f"its backend_config is {call.text!r}; expected settings such as '1,1,100,1e-6'")
  matcher = Matcher({"T": FLOATS})
  matcher.match("operand", patterns("T[n,n]"), call.operands)
  matcher.elements["R"] = (np.dtype(REAL[call.operands[0].dtype.name]),)
  matcher.match("result", patterns("T[n,n] R[n]"), call.results)


def _householder(call: CustomCall) -> None:
  sizes = _match(call, "T[m,n] T[k]", "T[m,n]")
  m, n, k = (sizes.get(name) for name in "mnk")
  if m is not None and n is not None and k is not None and not k <= n <= m:
    raise Mismatch(f"it has {k} reflectors for a matrix of {m} rows and {n} columns")


def _match(call: CustomCall, operands: str, results: str) -> Sizes:
  matcher = Matcher({"T": FLOATS})
  matcher.match("operand", patterns(operands), call.operands)
  matcher.match("result", patterns(results), call.results)
  return matcher.sizes


COMPILED: dict[str, Callable[[CustomCall], None]] = {
  "Eigh": _eigh,
  "LayoutConstraint": _same,
  "ProductOfElementaryHouseholderReflectors": _householder,
  "Qr": _qr,
  "SPMDFullToShardShape": _one,
  "SPMDShardToFullShape": _one,
  "Sharding": _one,
  "TopK": _top_k,
  "annotate_device_placement": _one,
  "dce_sink": _sink,
  "xla.sdy.FuncResultSharding": _one,
}
"""Targets that XLA compiles for every platform, and the function that raises Mismatch if types do not fit."""

WITH_TEXT = frozenset({"Eigh"})
"""Those of `COMPILED` whose settings are a text instead of a dictionary."""

REFINED: dict[str, Callable[[CustomCall], None]] = {"shape_assertion": _assertion}
"""Targets that the refinement of a polymorphic module removes."""
