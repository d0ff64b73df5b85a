"""Complex numbers as real and imaginary parts, for consumers that have no complex numbers, or few ops on them.

ONNX has no complex numbers, and TFLite has those of a Fourier transform only: a tensor then has `parts`, and no node
for itself. TF.js has complex numbers, but constants and most ops are wrong or missing: its tensors are divided into
parts before an op, and put together afterwards.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graftax.convert.jax2tf.tf_ops.missing_ops import lacks_complex
from graftax.convert.jax2tf.tf_ops.registry import Unsupported
from graftax.convert.jax2tf.tf_ops.tensors import MAX_FOLDED_SIZE, Shape, Tensor
from graftax.graphdef_ir import AttrValue, DType

if TYPE_CHECKING:
  from graftax.convert.jax2tf.tf_ops.builder import Builder, Input

__all__ = ["check", "computed", "lacks_constants", "parts"]

# Ops whose result for complex numbers is that for the real parts, and that for the imaginary parts.
_OF_EACH_PART = frozenset(
  "AddV2 BroadcastTo ConcatV2 Cumsum ExpandDims GatherNd GatherV2 Identity Neg Pad PadV2 Reshape ReverseV2 SelectV2 "
  "Slice Squeeze StridedSlice Sub Sum Tile Transpose".split()
)


def computed(
  b: "Builder", op: str, inputs: Sequence["Input"], shape: Shape, attrs: dict[str, AttrValue]
) -> Tensor | None:
  """Returns an op on complex numbers by ops on their parts; None if the consumer has the op itself."""
  consumer = b.library.consumer
  if consumer is None:
    return None
  given = [item for x in inputs for item in (x if isinstance(x, list | tuple) else [x])]
  if not any(map(_is_complex, given)):
    return _made(b, op, inputs, shape, attrs) if b.lacks("Complex") else None
  if op in ("Real", "Imag"):
    return _known_part(b, op, inputs[0])
  has_parts = any(isinstance(x, Tensor) and x.parts is not None for x in given)
  loses_constant = lacks_constants(b) and any(_is_complex(x) and _value(x) is not None for x in given)
  if not (has_parts or loses_constant or lacks_complex(consumer, op) or b.lacks(op)):
    return None
  if op == "Cast":
    return _cast(b, inputs[0], attrs, shape)
  if op in _OF_EACH_PART:
    parts = [[_part(b, part, x) for x in inputs] for part in ("Real", "Imag")]
    real, imag = (b.op(op, *of_part, shape=shape, **attrs) for of_part in parts)
    return _joined(b, real, imag)
  if op in _RULES:
    return _RULES[op](b, *([_part(b, part, x) for part in ("Real", "Imag")] for x in inputs), shape)
  check(b, op)
  return None


def parts(b: "Builder", x: Tensor) -> list[Tensor]:
  """Returns the real and the imaginary parts of complex numbers."""
  return [b.op(part, x, shape=x.shape, Tout=_dtype_of_parts(x.dtype)) for part in ("Real", "Imag")]


def lacks_constants(b: "Builder") -> bool:
  """Returns whether the consumer cannot read complex constants."""
  consumer = b.library.consumer
  return consumer is not None and (b.lacks("Complex") or lacks_complex(consumer, "Const"))


def check(b: "Builder", op: str) -> None:
  """Checks that the consumer has an op of complex numbers.

  Raises:
    Unsupported: the consumer does not have the op.
  """
  if b.library.consumer is not None and lacks_complex(b.library.consumer, op):
    raise Unsupported(f"the converter to {b.library.consumer} does not read the op {op} of complex numbers")


def _made(b: "Builder", op: str, inputs: Sequence["Input"], shape: Shape, attrs: dict[str, AttrValue]) -> Tensor | None:
  """Returns complex numbers made of real ones; None if the op makes none."""
  if op == "Complex":
    real, imag = (x if isinstance(x, Tensor) else b.constant(x) for x in inputs)
    return _joined(b, real, imag)
  dtype = attrs.get("DstT")
  if op != "Cast" or not isinstance(dtype, DType) or dtype.numpy.kind != "c":
    return None
  real = b.op("Cast", inputs[0], shape=shape, DstT=_dtype_of_parts(dtype.numpy))
  return _joined(b, real, b.op("BroadcastTo", np.zeros((), real.dtype), b.shape(shape), shape=shape))


def _cast(b: "Builder", x: "Input", attrs: dict[str, AttrValue], shape: Shape) -> Tensor:
  dtype = attrs["DstT"]
  assert isinstance(dtype, DType) and dtype.numpy.kind == "c", "internal: a cast of complex numbers to real ones."
  real, imag = (
    b.op("Cast", _part(b, part, x), shape=shape, DstT=_dtype_of_parts(dtype.numpy)) for part in ("Real", "Imag")
  )
  return _joined(b, real, imag)


def _is_complex(item: "Input") -> bool:
  return isinstance(item, Tensor | np.ndarray | np.generic) and item.dtype.kind == "c"


def _value(item: "Input") -> "np.ndarray[Any, Any] | None":
  return item.value if isinstance(item, Tensor) else np.asarray(item)


def _dtype_of_parts(dtype: "np.dtype[Any]") -> DType:
  return DType.FLOAT if dtype == np.complex64 else DType.DOUBLE


def _known_part(b: "Builder", part: str, x: "Input") -> Tensor | None:
  """Returns a part of a constant, or of numbers that have parts; None for others, of which a node has it."""
  if isinstance(x, Tensor) and x.parts is not None:
    return x.parts[0 if part == "Real" else 1]
  if isinstance(x, Tensor) and x.narrow is not None and x.value is not None and x.value.size > MAX_FOLDED_SIZE:
    return b.op("BroadcastTo", _known_part(b, part, x.narrow), b.shape(x.shape), shape=x.shape)
  value = _value(x)
  return None if value is None else b.constant(value.real if part == "Real" else value.imag)


def _part(b: "Builder", part: str, x: "Input") -> "Input":
  """Returns a part of complex numbers, or of each in a list; anything else is returned unchanged."""
  if isinstance(x, list | tuple):
    return [_part(b, part, item) for item in x]
  if not _is_complex(x):
    return x
  known = _known_part(b, part, x)
  return b.op(part, x, shape=x.shape, Tout=_dtype_of_parts(x.dtype)) if known is None else known


def _joined(b: "Builder", real: Tensor, imag: Tensor) -> Tensor:
  dtype = np.result_type(real.dtype, np.complex64)
  if b.lacks("Complex"):
    return Tensor(real.shape, dtype, parts=(real, imag))
  return b.op("Complex", real, imag, shape=real.shape, Tout=DType.from_numpy(dtype))


# Rules for an op: of the two parts of each operand.
_Parts = list[Tensor]


def _mul(b: "Builder", x: _Parts, y: _Parts, shape: Shape) -> Tensor:
  real = b.op("Sub", _op(b, "Mul", x[0], y[0], shape), _op(b, "Mul", x[1], y[1], shape), shape=shape)
  imag = b.op("AddV2", _op(b, "Mul", x[0], y[1], shape), _op(b, "Mul", x[1], y[0], shape), shape=shape)
  return _joined(b, real, imag)


def _square(b: "Builder", x: _Parts, shape: Shape) -> Tensor:
  return _mul(b, x, x, shape)


def _real_div(b: "Builder", x: _Parts, y: _Parts, shape: Shape) -> Tensor:
  """Returns quotients; the divisor is scaled, so that its square does not overflow."""
  of_divisor = y[0].shape
  scale = b.op("Maximum", *(b.op("Abs", part, shape=of_divisor) for part in y), shape=of_divisor)
  c, d = (b.op("RealDiv", part, scale, shape=of_divisor) for part in y)
  size = b.op("AddV2", b.op("Square", c, shape=of_divisor), b.op("Square", d, shape=of_divisor), shape=of_divisor)
  size = b.op("Mul", size, scale, shape=of_divisor)
  real = b.op("AddV2", _op(b, "Mul", x[0], c, shape), _op(b, "Mul", x[1], d, shape), shape=shape)
  imag = b.op("Sub", _op(b, "Mul", x[1], c, shape), _op(b, "Mul", x[0], d, shape), shape=shape)
  return _joined(b, _op(b, "RealDiv", real, size, shape), _op(b, "RealDiv", imag, size, shape))


def _conj(b: "Builder", x: _Parts, shape: Shape) -> Tensor:
  return _joined(b, x[0], b.op("Neg", x[1], shape=shape))


def _exp(b: "Builder", x: _Parts, shape: Shape) -> Tensor:
  size = b.op("Exp", x[0], shape=shape)
  return _joined(b, *(_op(b, "Mul", size, b.op(op, x[1], shape=shape), shape) for op in ("Cos", "Sin")))


def _complex_abs(b: "Builder", x: _Parts, shape: Shape) -> Tensor:
  """Returns absolute values; the parts are scaled, so that their squares do not overflow."""
  sizes = [b.op("Abs", part, shape=shape) for part in x]
  most, least = (b.op(op, *sizes, shape=shape) for op in ("Maximum", "Minimum"))
  one = b.constant(np.ones((), most.dtype))
  divisor = b.op("SelectV2", b.op("Greater", most, np.zeros((), most.dtype), shape=shape), most, one, shape=shape)
  ratio = b.op("Square", b.op("RealDiv", least, divisor, shape=shape), shape=shape)
  return b.op("Mul", most, b.op("Sqrt", b.op("AddV2", ratio, one, shape=shape), shape=shape), shape=shape)


def _op(b: "Builder", op: str, x: Tensor, y: Tensor, shape: Shape) -> Tensor:
  return b.op(op, x, y, shape=shape)


_RULES: dict[str, Callable[..., Tensor]] = {
  "ComplexAbs": _complex_abs,
  "Conj": _conj,
  "Exp": _exp,
  "Mul": _mul,
  "RealDiv": _real_div,
  "Square": _square,
}
