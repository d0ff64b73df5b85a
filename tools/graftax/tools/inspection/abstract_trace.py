"""Tracing a program on shapes alone: whether it runs for any size, and which node stops it if it does not."""

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax import export
from jax.typing import DTypeLike

from graftax.convert import AnnotatedFunction, OutputStructure, Program, convert_program
from graftax.graphdef_ir import TensorSpec
from graftax.tools.errors import notes_of
from graftax.tools.inputs.shape_options import default_sizes, example_size
from graftax.tools.inspection.scope_costs import ScopeCost, scope_costs
from graftax.tools.pytrees import Leaf, PyTree

__all__ = ["TraceResult", "trace_program"]


@dataclasses.dataclass(frozen=True, slots=True)
class TraceResult:
  """What tracing on shapes found.

  Attributes:
    open_sizes: names of the sizes that the inputs leave open.
    example_sizes: numbers in place of the open sizes with which tracing succeeds although it fails with any size; empty
      if it succeeds with any size, or with none.
    problem: the error that stops tracing with any size, with its node; None if nothing does.
    loops: what each loop becomes in JAX, and why.
    costs: what each scope computes and moves, at `cost_sizes`; empty if it does not trace with numbers.
    cost_sizes: the numbers in place of the open sizes.
  """

  open_sizes: tuple[str, ...]
  example_sizes: tuple[int, ...]
  problem: str | None
  loops: tuple[str, ...] = ()
  costs: tuple[ScopeCost, ...] = ()
  cost_sizes: tuple[int, ...] = ()


def trace_program(program: Program) -> TraceResult:
  """Traces a program, which must convert, without computing anything: first with any size, then with numbers."""
  fn, params = convert_program(program)
  specs = fn.inputs.specs
  unknown = [spec.name or f"input {i}" for i, spec in enumerate(specs) if spec.shape.dims is None]
  if unknown:
    return TraceResult((), (), f"{', '.join(unknown)}: the rank is unknown, so there is no shape to trace with")
  text = [spec.name or f"input {i}" for i, spec in enumerate(specs) if spec.dtype.numpy.hasobject]
  if text:
    return TraceResult((), (), f"{', '.join(text)}: holds strings, which JAX cannot trace")
  sizes = [default_sizes(spec.name or f"input_{i}", spec) for i, spec in enumerate(specs)]
  open_sizes = tuple(dict.fromkeys(size for dims in sizes for size in dims if not size.isdecimal()))
  numbers = {size: example_size(size) for size in open_sizes}
  with_numbers = [[str(numbers.get(size, size)) for size in dims] for dims in sizes]
  with _logged_loops() as loops:
    problem = _problem(fn, params, specs, sizes)
  if problem is None or not open_sizes:
    costs = _costs(fn, params, specs, with_numbers) if problem is None else ()
    return TraceResult(open_sizes, (), problem, tuple(loops), costs, tuple(numbers.values()) if costs else ())
  with _logged_loops() as loops:
    costs = _costs(fn, params, specs, with_numbers)
  found = tuple(numbers.values()) if costs else ()
  return TraceResult(open_sizes, found, problem, tuple(loops), costs, found)


@contextlib.contextmanager
def _logged_loops() -> Iterator[dict[str, None]]:
  """Yields a dict whose keys become the messages of the logger "graftax.loops", each once."""
  messages: dict[str, None] = {}
  logger, handler = logging.getLogger("graftax.loops"), _MessageHandler(messages)
  level = logger.level
  logger.addHandler(handler)
  logger.setLevel(logging.INFO)
  try:
    yield messages
  finally:
    logger.setLevel(level)
    logger.removeHandler(handler)


class _MessageHandler(logging.Handler):
  def __init__(self, messages: dict[str, None]):
    super().__init__()
    self._messages = messages

  def emit(self, record: logging.LogRecord) -> None:
    self._messages[record.getMessage()] = None


def _problem(
  fn: AnnotatedFunction, params: PyTree, specs: Sequence[TensorSpec], sizes: Sequence[Sequence[str]]
) -> str | None:
  """Returns what tracing with these sizes raises, or None."""
  try:
    jax.eval_shape(_call(fn), *_abstract_arguments(params, specs, sizes))
  except Exception as e:  # whatever graftax or JAX says; it is the answer
    return "; ".join([f"{type(e).__name__}: {str(e).strip().partition(chr(10))[0]}", *notes_of(e)[:1]])
  return None


def _costs(
  fn: AnnotatedFunction, params: PyTree, specs: Sequence[TensorSpec], sizes: Sequence[Sequence[str]]
) -> tuple[ScopeCost, ...]:
  """Returns what the scopes cost at these sizes, which are numbers; () if it cannot be traced with them."""
  try:
    return scope_costs(jax.make_jaxpr(_call(fn))(*_abstract_arguments(params, specs, sizes)))
  except Exception:  # whatever graftax or JAX says; the report is on other sizes
    return ()


def _call(fn: AnnotatedFunction) -> Callable[..., Any]:
  def call(params: dict[str, PyTree], inputs: list[Leaf], key: Leaf) -> PyTree:
    args, kwargs = OutputStructure(fn.structured_inputs).pack(inputs)
    return fn(params, *args, **{fn.rng_name: jax.random.wrap_key_data(key)}, **kwargs)[0]

  return call


def _abstract_arguments(
  params: PyTree, specs: Sequence[TensorSpec], sizes: Sequence[Sequence[str]]
) -> tuple[PyTree, ...]:
  scope = export.SymbolicScope()
  inputs = [
    jax.ShapeDtypeStruct(export.symbolic_shape(", ".join(dims), scope=scope), _dtype(spec.dtype.numpy))
    for spec, dims in zip(specs, sizes, strict=True)
  ]
  abstract = jax.tree.map(lambda value: jax.ShapeDtypeStruct(value.shape, _dtype(value.dtype)), params)
  return abstract, inputs, jax.ShapeDtypeStruct((2,), np.uint32)


def _dtype(dtype: DTypeLike) -> np.dtype:
  return jax.dtypes.canonicalize_dtype(dtype)
