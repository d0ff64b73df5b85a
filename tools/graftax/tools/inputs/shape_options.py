"""Input shapes from a signature and from `--batch` and `--shape`: numbers, or symbols for sizes left open."""

import re
from collections.abc import Mapping, Sequence

import jax
from jax import export

from graftax.graphdef_ir import PartialShape, TensorSpec
from graftax.tools.errors import ExportError, ShapeOptionError

__all__ = ["SYMBOLIC", "default_sizes", "example_size", "input_shapes", "symbolic_scope"]

# The value of `--batch` that leaves the batch size open.
SYMBOLIC = "symbolic"
_BATCH = "batch"
# Numbers in place of open sizes, in examples and where no symbol will do.
_EXAMPLE_SIZES = {_BATCH: 2}
_OTHER_EXAMPLE_SIZE = 32
_NAME = re.compile(r"[A-Za-z_]\w*")
_OPERATORS = {"mod", "floordiv", "max", "min"}
_SIZE = re.compile(r"[0-9]+|[A-Za-z_][A-Za-z0-9_]*|\?")


def input_shapes(
  specs: Mapping[str, TensorSpec], *, batch: str, shapes: Sequence[str], constraints: Sequence[str] = ()
) -> dict[str, jax.ShapeDtypeStruct]:
  """Returns a shape and dtype for each input.

  Sizes that the signature leaves open become symbols: `batch` for a first dimension, in all inputs the same, and a
  symbol of its own for every other.

  Args:
    specs: input name -> what the signature says.
    batch: a number for open first dimensions, or `"symbolic"`.
    shapes: each `name=2,?,width,3`: numbers, names of symbols, or `?` for what would be there by default.
    constraints: each a condition on symbols that callers keep, such as `"width>=2"`, as `jax.export` takes them.

  Raises:
    ShapeOptionError: an option is malformed or does not fit the signature, or an input of unknown rank has no shape.
    ExportError: an input has no numeric dtype.

  Example:
    >>> from graftax.graphdef_ir import DType, PartialShape
    >>> specs = {"x": TensorSpec(PartialShape((None, 3)), DType.FLOAT)}
    >>> input_shapes(specs, batch="symbolic", shapes=())
    {'x': ShapeDtypeStruct(shape=(batch, 3), dtype=float32)}
  """
  if batch != SYMBOLIC and (not batch.isdecimal() or not int(batch)):
    raise ShapeOptionError(f"--batch {batch!r}: expected a number from 1, or {SYMBOLIC!r}.")
  given = dict(_parse(option, specs) for option in shapes)
  scope = symbolic_scope(constraints)
  result = {}
  symbols: set[str] = set()
  for name, spec in specs.items():
    if not isinstance(spec, TensorSpec):
      raise ExportError(f"input {name!r} takes a {type(spec).__name__}; only plain tensors can be exported.")
    sizes = ", ".join(_sizes(name, spec, given.get(name), _BATCH if batch == SYMBOLIC else batch))
    symbols.update(_NAME.findall(sizes))
    result[name] = jax.ShapeDtypeStruct(export.symbolic_shape(sizes, scope=scope), _dtype(name, spec))
  _check_constraints(constraints, symbols)
  return result


def default_sizes(name: str, spec: TensorSpec, batch: str = _BATCH) -> list[str]:
  """Returns the sizes of an input of known rank: numbers, `batch` for an open first one, and symbols for the others.

  Example:
    >>> from graftax.graphdef_ir import DType, PartialShape
    >>> default_sizes("x", TensorSpec(PartialShape((None, None, 3)), DType.FLOAT))
    ['batch', 'x_1', '3']
  """
  symbol = re.sub(r"\W", "_", name)
  return [
    str(size) if size is not None else f"{symbol}_{axis}" if axis else batch
    for axis, size in enumerate(spec.shape.dims or ())
  ]


def example_size(symbol: str) -> int:
  """Returns a number to put in place of an open size."""
  return _EXAMPLE_SIZES.get(symbol, _OTHER_EXAMPLE_SIZE)


def symbolic_scope(constraints: Sequence[str]) -> export.SymbolicScope:
  """Returns the scope of symbols with conditions on them.

  Raises:
    ShapeOptionError: a condition is malformed.
  """
  try:
    return export.SymbolicScope(tuple(constraints))
  except ValueError as e:
    reason = str(e).strip().partition("\n")[0]
    raise ShapeOptionError(
      f"--constraint {list(constraints)}: expected conditions such as 'width>=2', 'width==2*half' or "
      f"'mod(width, 8)==0': {reason}"
    ) from e


def _check_constraints(constraints: Sequence[str], symbols: set[str]) -> None:
  """Raises if a condition is on a symbol that no input has, unless all sizes are numbers."""
  for constraint in constraints if symbols else ():
    unknown = set(_NAME.findall(constraint)) - _OPERATORS - symbols
    if unknown:
      raise ShapeOptionError(
        f"--constraint {constraint!r}: no input has the open size {min(unknown)!r}; they have {sorted(symbols)}. Name "
        f"a size with --shape, such as NAME=?,{min(unknown)}."
      )


def _parse(option: str, specs: Mapping[str, TensorSpec]) -> tuple[str, list[str]]:
  name, equals, text = option.partition("=")
  sizes = [size.strip() for size in text.split(",")] if text else []
  malformed = [size for size in sizes if not _SIZE.fullmatch(size)]
  if not equals or malformed:
    raise ShapeOptionError(f"--shape {option!r}: expected NAME=2,?,width,3 (numbers, names, or ? for the default).")
  if name not in specs:
    raise ShapeOptionError(f"--shape {option!r}: no input {name!r}; the signature has {list(specs)}.")
  if any(size.isdecimal() and not int(size) and dim is None for size, dim in _beside(sizes, specs[name])):
    raise ShapeOptionError(f"--shape {option!r}: a size that is left open is at least 1.")
  known = tuple(int(size) if size.isdecimal() else None for size in sizes)
  if not specs[name].shape.is_compatible_with(known):
    raise ShapeOptionError(f"--shape {option!r}: does not fit the signature, which takes {specs[name]}.")
  return name, sizes


def _beside(sizes: Sequence[str], spec: TensorSpec) -> list[tuple[str, int | None]]:
  """Pairs the given sizes with those of the signature; stops at the end of the shorter list."""
  return list(zip(sizes, spec.shape.dims or (None,) * len(sizes), strict=False))


def _sizes(name: str, spec: TensorSpec, given: list[str] | None, batch: str) -> list[str]:
  dims = spec.shape.dims
  if dims is None:
    if given is None:
      raise ShapeOptionError(f"input {name!r} has unknown rank; give its shape, such as --shape {name}=8,3.")
    dims = (None,) * len(given)
  default = default_sizes(name, TensorSpec(PartialShape(dims), spec.dtype), batch)
  if given is None:
    return default
  return [_pick(size, known, other) for size, known, other in zip(given, dims, default, strict=True)]


def _pick(given: str, known: int | None, default: str) -> str:
  # A symbol where the signature knows the size would promise too much.
  return default if given == "?" or known is not None else given


def _dtype(name: str, spec: TensorSpec) -> "jax.numpy.dtype":
  dtype = spec.dtype.numpy
  if dtype.hasobject:
    raise ExportError(f"input {name!r} takes strings, which JAX programs cannot; export another signature.")
  return jax.dtypes.canonicalize_dtype(dtype)
