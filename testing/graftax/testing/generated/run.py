"""One case in TensorFlow and through its lowering."""

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.graphdef_ir import GraftaxError
from graftax.ops_jax import BoundedArray, StaticInputError
from graftax.testing._tensorflow import import_tensorflow
from graftax.testing.cotangents import is_inexact, random_like
from graftax.testing.generated.case import Case, CaseId
from graftax.testing.generated.compare import Difference, differences
from graftax.testing.generated.draw import Draw
from graftax.testing.generated.recipes import recipe_of
from graftax.testing.harness.errors import error_text
from graftax.testing.raw_ops import RawOp, raw_op, tensorflow_op

__all__ = ["Outcome", "Runner", "draw_case"]

_GRADIENT_FACTOR = 10.0
_MAX_DETAIL = 300


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
  """What came of a case.

  Attributes:
    rejected: TensorFlow's message if it rejects the arguments, else an empty string.
    differences: how the lowering differs; empty if it agrees.
    has_gradient: whether a gradient was compared.
  """

  rejected: str = ""
  differences: tuple[Difference, ...] = ()
  has_gradient: bool = False


def draw_case(case_id: CaseId) -> Case:
  """Returns the case of an id.

  Raises:
    ValueError: the op has no recipe.
  """
  recipe = recipe_of(case_id.op)
  if recipe is None:
    raise ValueError(f"{case_id.op} has no recipe in graftax.testing.generated.recipes")
  draw = Draw(case_id)
  arrays = recipe(draw)
  names = [arg.name for arg in draw.signature.inputs]
  inferred = {a for arg in draw.signature.inputs for a in (arg.type_attr, arg.number_attr, arg.type_list_attr)}
  attrs = {name: value for name, value in draw.attrs.items() if name not in inferred}
  return Case(case_id, dict(zip(names, arrays, strict=True)), attrs)


class Runner:
  """Runs cases; those that differ only in the values of traced inputs share a compiled program."""

  def __init__(self, on_oracle_done: Callable[[], None] = lambda: None) -> None:
    self._on_oracle_done = on_oracle_done
    self._key: Any = None
    self._raw_op: RawOp | None = None
    self._program: Callable[..., Any] | None = None

  def run(self, case: Case) -> Outcome:
    """Returns how the lowering differs from TensorFlow's CPU kernel in value, dtype, shape and gradient."""
    oracle, flat, _ = tensorflow_op(case.id.op, case.inputs, case.attrs)
    with warnings.catch_warnings(), jax.enable_x64(True), np.errstate(all="ignore"):
      warnings.simplefilter("ignore")
      try:
        expected = [np.asarray(y.numpy()) for y in oracle(flat)]
      except Exception as e:
        return Outcome(rejected=error_text(e, _MAX_DETAIL))
      cotangents = _cotangents(case.id, expected)
      gradient = _tensorflow_gradient(oracle, flat, cotangents) if cotangents else None
      self._on_oracle_done()
      return self._against(case, expected, gradient, cotangents)

  def _against(self, case: Case, *wanted: Any) -> Outcome:
    # An op whose result's shape depends on values needs them while tracing: first the integers, then everything.
    integers = frozenset(name for name in case.inputs if not is_inexact(_first(case.inputs[name])))
    for known in (frozenset[str](), integers, frozenset(case.inputs)):
      try:
        return self._compared(self._bound(case, known), case, *wanted)
      except Exception as e:
        outcome = Outcome(differences=(_failure("", e),))
        if not isinstance(e, StaticInputError):
          break
    return outcome

  def _bound(self, case: Case, known: Any) -> RawOp:
    """Returns the bound op; that of the last case if only traced values differ."""
    attrs = sorted((name, repr(value)) for name, value in case.attrs.items())
    specs = [(x.shape, str(x.dtype)) for x in case.arrays()]
    if self._raw_op is not None and self._key is not None and self._key[:4] == (case.id.op, attrs, specs, known):
      inputs = tensorflow_op(case.id.op, case.inputs, case.attrs)[1]
      static = [x.tobytes() for x, is_static in zip(inputs, self._raw_op.static, strict=True) if is_static]
      if static == self._key[4]:
        return dataclasses.replace(self._raw_op, inputs=inputs)
    self._key = self._program = None
    self._raw_op = raw_op(case.id.op, case.inputs, case.attrs, static=known, infer_shapes=False)
    inputs = self._raw_op.inputs
    static = [x.tobytes() for x, is_static in zip(inputs, self._raw_op.static, strict=True) if is_static]
    self._key = (case.id.op, attrs, specs, known, static)
    return self._raw_op

  def _compared(
    self,
    raw: RawOp,
    case: Case,
    expected: Sequence[np.ndarray],
    gradient: Sequence[np.ndarray | None] | None,
    cotangents: Sequence[np.ndarray],
  ) -> Outcome:
    op = case.id.op
    # TensorFlow differentiates with respect to all inputs; only those that are traced here have a derivative.
    wanted = [g for g, static in zip(gradient or (), raw.static, strict=False) if not static and g is not None]
    if not wanted:
      self._program = self._program or jax.jit(raw.run)
      return Outcome(differences=tuple(differences(op, "value", self._program(*raw.dynamic_inputs), expected)))
    self._program = self._program or jax.jit(_with_gradient(raw, [is_inexact(y) for y in expected]))
    try:
      values, pulled = self._program(raw.dynamic_inputs, cotangents)
    except Exception as e:
      self._key, found = None, jax.jit(raw.run)(*raw.dynamic_inputs)
      return Outcome(differences=(*differences(op, "value", found, expected), _failure("gradient ", e)))
    found_differences = [
      *differences(op, "value", values, expected),
      *differences(op, "gradient", pulled, wanted, _GRADIENT_FACTOR),
    ]
    return Outcome(differences=tuple(found_differences), has_gradient=True)


def _with_gradient(raw: RawOp, inexact: Sequence[bool]) -> Callable[..., Any]:
  wanted = [i for i, x in enumerate(raw.dynamic_inputs) if is_inexact(x)]

  def run(inputs: Sequence[Any], cotangents: Sequence[Any]) -> tuple[Any, Any]:
    def function(points: Sequence[Any]) -> tuple[Any, Any]:
      dynamic = [jnp.asarray(x) for x in inputs]
      for i, x in zip(wanted, points, strict=True):
        dynamic[i] = x
      outputs = raw.run(*dynamic)
      return [_array(y) for y, keep in zip(outputs, inexact, strict=True) if keep], outputs

    primals, pull, outputs = jax.vjp(function, [jnp.asarray(inputs[i]) for i in wanted], has_aux=True)
    # TensorFlow's gradient of a complex function is the conjugate of JAX's.
    (gradients,) = pull([_padded_to(y.shape, jnp.conj(c)) for y, c in zip(primals, cotangents, strict=True)])
    return outputs, [jnp.conj(g) for g in gradients]

  return run


def _array(output: Any) -> jax.Array:
  return output.padded if isinstance(output, BoundedArray) else jnp.asarray(output)


def _padded_to(shape: tuple[int, ...], x: jax.Array) -> jax.Array:
  """Returns the cotangent of an array with its padding, which has none."""
  return x if x.shape == shape else jnp.pad(x, [(0, size - own) for size, own in zip(shape, x.shape, strict=True)])


def _tensorflow_gradient(
  oracle: Callable[[Sequence[Any]], list[Any]], inputs: Sequence[np.ndarray], cotangents: Sequence[np.ndarray]
) -> list[np.ndarray | None] | None:
  """Returns the gradient with respect to each floating-point input; None if TensorFlow has none at all."""
  tf = import_tensorflow()
  flat = [tf.constant(x, dtype=x.dtype) for x in inputs]
  points = [x for x in flat if x.dtype.is_floating or x.dtype.is_complex]
  if not points:
    return None
  try:
    with tf.GradientTape() as tape:
      tape.watch(points)
      outputs = [y for y in oracle(flat) if y.dtype.is_floating or y.dtype.is_complex]
    gradients = tape.gradient(outputs, points, [tf.constant(c, dtype=c.dtype) for c in cotangents])
    if all(g is None for g in gradients):
      return None
    pairs = zip(gradients, points, strict=True)
    dense = iter([tf.zeros_like(x).numpy() if g is None else tf.convert_to_tensor(g).numpy() for g, x in pairs])
    return [next(dense) if is_inexact(x) else None for x in inputs]
  except Exception:  # LookupError without a gradient; others where the gradient's own ops reject their arguments.
    return None


def _cotangents(case_id: CaseId, outputs: Sequence[np.ndarray]) -> list[np.ndarray]:
  rng = np.random.default_rng((case_id.structure, case_id.values))
  return [random_like(rng, y) for y in outputs if is_inexact(y)]


def _failure(prefix: str, error: Exception) -> Difference:
  kind = "refused" if isinstance(error, GraftaxError) else "raised"
  return Difference(prefix + kind, error_text(error, _MAX_DETAIL))


def _first(value: Any) -> np.ndarray:
  return value[0] if isinstance(value, list) else value
