"""A pytest plugin that writes what each passed `check_raw_op` showed: `pytest -p graftax.testing.op_facts.recording`.

The folder of the files is the environment variable `GRAFTAX_OP_EVIDENCE`; each process writes one of its own.
"""

import functools
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec

from graftax.graphdef_ir import op_signature
from graftax.ops_jax import lowering
from graftax.testing import raw_ops
from graftax.testing.op_facts.evidence import Evidence, append, dtypes_of_inputs

__all__ = ["recorded"]

_P = ParamSpec("_P")


def pytest_configure() -> None:
  """Has pytest record; test modules import `check_raw_op` after this."""
  folder = Path(os.environ["GRAFTAX_OP_EVIDENCE"])
  folder.mkdir(parents=True, exist_ok=True)
  path = folder / f"raw_ops_{os.getpid()}.jsonl"
  raw_ops.check_raw_op = recorded(raw_ops.check_raw_op, lambda line: append(path, [line]))


def recorded(check: Callable[_P, None], record: Callable[[Evidence], None]) -> Callable[_P, None]:
  """Returns `check_raw_op` so that it also records what passed."""

  @functools.wraps(check)
  def run(*args: _P.args, **kwargs: _P.kwargs) -> None:
    check(*args, **kwargs)
    bound = inspect.signature(check).bind(*args, **kwargs)
    bound.apply_defaults()
    options = bound.arguments
    if options["lowering"] is None:  # a test of `check_raw_op` itself passes another one
      record(_evidence(options))

  return run


def _evidence(options: dict[str, object]) -> Evidence:
  op, inputs, static = options["op"], options["inputs"], options["static"]
  assert isinstance(op, str)
  names = [argument.name for argument in op_signature(op).inputs]
  by_name = dict(inputs) if isinstance(inputs, dict) else dict(zip(names, inputs, strict=True))  # type: ignore[call-overload]
  found = lowering(op)
  known = {p.name for p in found.inputs if p.static_type is not None} if found is not None else set[str]()
  traced = [name for name in names if name not in known and name not in static]  # type: ignore[operator]
  dtypes = dtypes_of_inputs(op, by_name, options["attrs"] or {})  # type: ignore[arg-type]
  strings = "string" in dtypes.values()
  asked = {
    "value": True,
    "jit": bool(options["jit"]) and not strings,
    "vmap": bool(options["vmap"]) and bool(traced) and not strings,
    "gradient": bool(options["grad"]),
    "symbolic": bool(options["symbolic"]),
  }
  return {
    "op": op,
    "source": "raw_op",
    "dtypes": dtypes,
    "passed": [name for name, is_asked in asked.items() if is_asked],
  }
