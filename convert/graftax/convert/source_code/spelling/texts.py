"""Texts of constants: numbers, shapes, dtypes and the settings of operations."""

import ast
import enum
import math
import re
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.export import is_symbolic_dim
from jax.extend.core import Primitive, primitives

from graftax.convert.source_code.program import Dim, DType, Literal, Settings

__all__ = ["array_text", "dim_names", "dtype_text", "number_text", "settings_text", "shape_text", "text"]


def number_text(value: Any, dtype: DType) -> str:
  """Returns a number as Python writes it, short, and exact for this dtype."""
  kind = np.dtype(dtype).kind if not jnp.issubdtype(dtype, jax.dtypes.bfloat16) else "f"
  if kind == "b":
    return str(bool(value))
  if kind in "iu":
    return str(int(value))
  if kind == "c":
    return _complex_text(complex(value))
  number = float(value)
  if number != number:
    return "jnp.nan"
  if number in (float("inf"), float("-inf")):
    return "jnp.inf" if number > 0 else "-jnp.inf"
  short = str(np.asarray(value).astype(dtype)[()])
  try:
    if np.asarray(float(short)).astype(dtype).tobytes() == np.asarray(value).astype(dtype).tobytes():
      return repr(float(short))
  except ValueError:
    pass
  return repr(number)


def _complex_text(value: complex) -> str:
  """Returns a complex number; the sum that Python prints for it loses NaN, infinities and the signs of some zeros."""
  parts = (value.real, value.imag)
  if all(map(math.isfinite, parts)):
    printed = complex(ast.literal_eval(repr(value)))
    if all(
      math.copysign(1, p) == math.copysign(1, q) for p, q in zip(parts, (printed.real, printed.imag), strict=True)
    ):
      return repr(value)
  return f"complex({', '.join(number_text(part, np.float64) for part in parts)})"


def array_text(literal: Literal) -> str:
  """Returns an expression of a constant with its dtype."""
  array = literal.array
  if array.shape == ():
    return f"{_constructor(array.dtype)}({number_text(array[()], array.dtype)})"
  # A list without numbers has no sizes after the first.
  items = f"np.zeros({shape_text(array.shape)})" if array.size == 0 and array.ndim > 1 else _nested(array)
  return f"jnp.array({items}, {dtype_text(array.dtype)})"


def _constructor(dtype: DType) -> str:
  name = np.dtype(dtype).name
  return f"np.{name}" if hasattr(np, name) and name != "bool" else "np.bool_" if name == "bool" else f"jnp.{name}"


def _nested(array: np.ndarray) -> str:
  if array.ndim == 0:
    return number_text(array[()], array.dtype)
  return "[" + ", ".join(_nested(item) for item in array) + "]"


def dtype_text(dtype: DType) -> str:
  """Returns a dtype as jnp names it."""
  name = np.dtype(dtype).name if not hasattr(dtype, "_rules") else str(dtype)
  return "jnp.bool_" if name == "bool" else f"jnp.{name}"


def shape_text(shape: Sequence[Dim]) -> str:
  """Returns a shape as a tuple."""
  sizes = [text(size) for size in shape]
  return "(" + ", ".join(sizes) + ("," if len(sizes) == 1 else "") + ")"


def settings_text(settings: Settings) -> str:
  """Returns settings as keyword arguments, with a comma before each."""
  return "".join(f", {name}={text(value)}" for name, value in settings.items())


def text(value: Any) -> str:
  """Returns an expression for a setting.

  Raises:
    ValueError: there is no expression for it.
  """
  if is_symbolic_dim(value):
    return _symbolic(str(value))
  if value is None or isinstance(value, bool | str):
    return _quoted(value) if isinstance(value, str) else repr(value)
  if isinstance(value, np.bool_):
    return repr(bool(value))
  if isinstance(value, int | np.integer) and not isinstance(value, enum.Enum):
    return repr(int(value))
  if isinstance(value, float | np.floating):
    return number_text(value, np.asarray(value).dtype)
  if isinstance(value, Literal):
    return array_text(value)
  if isinstance(value, Primitive):
    return _primitive(value)
  if isinstance(value, enum.Enum):
    return _enum(value)
  if isinstance(value, tuple) and hasattr(value, "_fields"):
    return _lax_class(value, dict(zip(value._fields, value, strict=True)))
  if isinstance(value, tuple | list):
    return shape_text(value)
  if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
    return dtype_text(value)
  if isinstance(value, lax.GatherDimensionNumbers | lax.ScatterDimensionNumbers):
    names: Any = getattr(type(value), "__dataclass_fields__", None) or value.__dict__
    return _lax_class(value, {name: getattr(value, name) for name in names})
  raise ValueError(f"{value!r} has no text")


def _quoted(value: str) -> str:
  return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _enum(value: enum.Enum) -> str:
  for module, prefix in ((lax, "lax"), (lax.linalg, "lax.linalg"), (jax.random, "jax.random")):
    if getattr(module, type(value).__name__, None) is type(value):
      return f"{prefix}.{type(value).__name__}.{value.name}"
  raise ValueError(f"{value!r} has no text")


def _primitive(value: Primitive) -> str:
  name = f"{value.name}_p"
  if getattr(primitives, name, None) is not value:
    raise ValueError(f"{value!r} has no text")
  return f"primitives.{name}"


def _lax_class(value: Any, fields: dict[str, object]) -> str:
  name = type(value).__name__
  if name not in vars(lax):
    raise ValueError(f"{value!r} has no text")
  given = {k: v for k, v in fields.items() if not (isinstance(v, tuple) and not v and k.endswith("batching_dims"))}
  return f"lax.{name}({settings_text(given)[2:]})"


def _symbolic(expression: str) -> str:
  """Returns a symbolic dimension as Python computes it."""
  tree = ast.parse(expression.replace("^", "**"), mode="eval")
  return ast.unparse(_Divisions().visit(tree))


class _Divisions(ast.NodeTransformer):
  def visit_Call(self, node: ast.Call) -> ast.expr:
    self.generic_visit(node)
    operators: dict[str, ast.operator] = {"floordiv": ast.FloorDiv(), "mod": ast.Mod()}
    if isinstance(node.func, ast.Name) and node.func.id in operators:
      return ast.BinOp(node.args[0], operators[node.func.id], node.args[1])
    return node


def dim_names(value: Any) -> set[str]:
  """Returns the names of the symbolic dimensions in a size."""
  if not is_symbolic_dim(value):
    return set()
  return set(re.findall(r"[A-Za-z_]\w*", str(value))) - {"floordiv", "mod", "max", "min"}
