"""Spellings of operations on each element."""

from collections.abc import Iterator

from graftax.convert.source_code.spelling.registry import Call, spelled
from graftax.convert.source_code.spelling.texts import dtype_text, shape_text, text

__all__: list[str] = []

_INFIX = {
  "add": "+",
  "sub": "-",
  "mul": "*",
  "div": "/",
  "and": "&",
  "or": "|",
  "xor": "^",
  "eq": "==",
  "ne": "!=",
  "lt": "<",
  "le": "<=",
  "gt": ">",
  "ge": ">=",
  "shift_left": "<<",
  "shift_right_arithmetic": ">>",
  "shift_right_logical": ">>",
  "rem": "%",
  "pow": "**",
}
_BINARY = {"max": "jnp.maximum", "min": "jnp.minimum", "rem": "lax.rem", "pow": "jnp.power", "atan2": "jnp.arctan2"}
_UNARY = {
  "neg": "-{}",
  "not": "~{}",
  "abs": "jnp.abs({})",
  "logistic": "jax.nn.sigmoid({})",
  "asin": "jnp.arcsin({})",
  "acos": "jnp.arccos({})",
  "atan": "jnp.arctan({})",
  "asinh": "jnp.arcsinh({})",
  "acosh": "jnp.arccosh({})",
  "atanh": "jnp.arctanh({})",
  "is_finite": "jnp.isfinite({})",
  "population_count": "lax.population_count({})",
  "real": "jnp.real({})",
  "imag": "jnp.imag({})",
  "conj": "jnp.conj({})",
}


@spelled(*_INFIX, *_BINARY)
def binary(e: Call) -> Iterator[str]:
  op = e.equation.op
  if op in _INFIX:
    yield f"_0 {_INFIX[op]} _1"
  if op in _BINARY:
    yield f"{_BINARY[op]}(_0, _1)"
  names = {"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"}
  yield f"lax.{names.get(op, op)}(_0, _1)"


@spelled(*_UNARY)
def unary(e: Call) -> Iterator[str]:
  yield _UNARY[e.equation.op].format("_0")
  names = {"not": "bitwise_not"}
  yield f"lax.{names.get(e.equation.op, e.equation.op)}(_0)"


@spelled(
  *("exp", "exp2", "log", "log1p", "expm1", "sin", "cos", "tan", "sinh", "cosh", "tanh", "sqrt", "cbrt"),
  *("floor", "ceil", "sign", "square"),
)
def same_name(e: Call) -> Iterator[str]:
  yield f"jnp.{e.equation.op}(_0)"


@spelled("round")
def rounded(e: Call) -> Iterator[str]:
  yield "jnp.round(_0)"
  yield f"lax.round(_0, {text(e.settings['rounding_method'])})"


@spelled("integer_pow")
def integer_pow(e: Call) -> Iterator[str]:
  yield f"_0 ** {e.settings['y']}"
  yield f"lax.integer_pow(_0, {e.settings['y']})"


@spelled("select_n")
def select_n(e: Call) -> Iterator[str]:
  if len(e.names) == 3:
    yield "jnp.where(_0, _2, _1)"
    yield "lax.select(_0, _2, _1)"
  yield f"lax.select_n({e.args})"
  # A number among the cases is an array in a choice by an integer, as `vmap` of `lax.switch` makes it.
  cases = [
    f"jnp.full({shape_text(e.shape)}, _{i})" if e.in_shape(i) != e.shape else f"_{i}" for i in range(1, len(e.names))
  ]
  yield f"lax.select_n(_0, {', '.join(cases)})"


@spelled("clamp")
def clamp(e: Call) -> Iterator[str]:
  yield "lax.clamp(_0, _1, _2)"


@spelled("convert_element_type")
def convert_element_type(e: Call) -> Iterator[str]:
  yield f"_0.astype({dtype_text(e.dtype)})"
  yield f"lax.convert_element_type(_0, {dtype_text(e.dtype)})"


@spelled("bitcast_convert_type")
def bitcast_convert_type(e: Call) -> Iterator[str]:
  yield f"lax.bitcast_convert_type(_0, {dtype_text(e.dtype)})"


@spelled("reduce_precision")
def reduce_precision(e: Call) -> Iterator[str]:
  yield f"lax.reduce_precision(_0, {e.settings['exponent_bits']}, {e.settings['mantissa_bits']})"


@spelled("dim_as_value")
def dim_as_value(e: Call) -> Iterator[str]:
  yield f"jnp.asarray({text(e.settings['dim'])})"
  yield f"jnp.asarray({text(e.settings['dim'])}, {dtype_text(e.dtype)})"
