"""The checks: each function compares the converted function with TensorFlow in one way."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tree

from graftax.convert import AnnotatedFunction, VariableWriteError, jit_for_inference
from graftax.testing.differential.circle import around
from graftax.testing.differential.compare import compare, compare_flat, without_padding
from graftax.testing.differential.converters import Converter
from graftax.testing.differential.oracle import Oracle, cotangent, is_real
from graftax.testing.harness.compare import Difference
from graftax.testing.harness.conversion_case import ConversionCase
from graftax.testing.pytrees import Leaf, PyTree

__all__ = ["RUN_CHECK", "Subject"]

_BATCH_SIZES = (1, 2, 5)


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
  """A case with its oracle and its conversion.

  Attributes:
    case: the case.
    oracle: runs the program in TensorFlow.
    converter: the converter under test.
    function: the converted function.
    params: its parameters.
  """

  case: ConversionCase
  oracle: Oracle
  converter: Converter
  function: Callable[..., Any]
  params: Mapping[str, Leaf]

  @classmethod
  def convert(cls, case: ConversionCase, oracle: Oracle, converter: Converter) -> "Subject":
    """Returns the case converted for its example inputs."""
    function, params = converter.convert(oracle.function, oracle.specs(case.inputs))
    return cls(case, oracle, converter, function, params)

  def call(self, params: Mapping[str, Leaf], leaves: Sequence[Leaf]) -> PyTree:
    """Returns the result and the new parameters for flat inputs."""
    return self.function(params, *tree.unflatten_as(self.case.inputs, list(leaves)))

  @property
  def leaves(self) -> list[np.ndarray]:
    """The flattened inputs."""
    return tree.flatten(self.case.inputs)

  def tolerance(self, order: int = 0) -> tuple[float, float]:
    """Returns `(rtol, atol)` for values (`order=0`) or for derivatives of the given order."""
    rtol, atol = self.case.tolerance
    return rtol * 10**order, atol * 10**order


def _value(subject: Subject) -> None:
  outputs, _ = subject.call(subject.params, [jnp.asarray(leaf) for leaf in subject.leaves])
  compare(outputs, subject.oracle.value(subject.case.inputs), subject.tolerance())


def _jit(subject: Subject) -> None:
  """Compares compiled results, also those of the program for inference unless that would lose assigned parameters."""
  outputs, _ = jax.jit(subject.call)(subject.params, subject.leaves)
  expected = tree.flatten(subject.oracle.value(subject.case.inputs))
  _compare_leaves(subject, outputs, expected)
  if isinstance(subject.function, AnnotatedFunction):
    predict = jit_for_inference(subject.function, subject.params)
    try:
      outputs = predict(*tree.unflatten_as(subject.case.inputs, subject.leaves))
    except VariableWriteError:
      pass
    else:
      _compare_leaves(subject, outputs, expected)


def _grad(subject: Subject) -> None:
  points, loss = _loss_of_inputs(subject)
  gradients = jax.jit(jax.grad(loss))(points)
  expected = subject.oracle.gradient(subject.case.inputs)
  compare_flat(gradients, expected, subject.tolerance(1), [f"gradient {i}" for i in range(len(expected))])


def _second_order(subject: Subject) -> None:
  points, loss = _loss_of_inputs(subject)

  def total(points: Sequence[Leaf]) -> Leaf:
    return sum(jnp.sum(g) for g in jax.grad(loss)(points))

  gradients = jax.jit(jax.grad(total))(points)
  expected = subject.oracle.second_derivative(subject.case.inputs)
  compare_flat(gradients, expected, subject.tolerance(2), [f"second derivative {i}" for i in range(len(expected))])


def _param_grad(subject: Subject) -> None:
  trainable = _trainable_names(subject)

  def loss(values: Mapping[str, Leaf]) -> Leaf:
    return _weighted_sum(subject.call({**subject.params, **values}, subject.leaves)[0])

  gradients = jax.jit(jax.grad(loss))({name: jnp.asarray(subject.params[name]) for name in trainable})
  expected = subject.oracle.parameter_gradient(subject.case.inputs)
  compare_flat([gradients[name] for name in trainable], expected, subject.tolerance(1), trainable)


def _state(subject: Subject) -> None:
  names = _parameter_names(subject)
  expected = subject.oracle.state(subject.case.inputs)
  for call in (subject.call, jax.jit(subject.call)):
    _, params = call(subject.params, subject.leaves)
    compare_flat([params[name] for name in names], expected, subject.tolerance(1), names)


def _vmap(subject: Subject) -> None:
  others = [np.roll(leaf.reshape(-1), 1).reshape(leaf.shape) for leaf in subject.leaves]
  stacked = [np.stack(pair) for pair in zip(subject.leaves, others, strict=True)]
  # Compiled, because compiling each JAX operation for itself takes much longer; `value` runs without `jit`.
  run = jax.jit(jax.vmap(lambda params, leaves: subject.call(params, leaves)[0], in_axes=(None, 0)))
  outputs = run(subject.params, stacked)
  examples = [
    tree.flatten(subject.oracle.value(tree.unflatten_as(subject.case.inputs, leaves)))
    for leaves in (subject.leaves, others)
  ]
  expected = [None if pair[0] is None else np.stack(pair) for pair in zip(*examples, strict=True)]
  _compare_leaves(subject, outputs, expected)


def _batch(subject: Subject) -> None:
  function, params = _with_open_batch(subject)

  @jax.jit
  def run(params: Mapping[str, Leaf], leaves: Sequence[Leaf]) -> PyTree:
    return function(params, *tree.unflatten_as(subject.case.inputs, list(leaves)))[0]

  for size in _BATCH_SIZES:
    inputs = _resized(subject.case, size)
    try:
      outputs = run(params, tree.flatten(inputs))
      _compare_leaves(subject, outputs, tree.flatten(subject.oracle.value(inputs)))
    except Difference as e:
      raise Difference(f"batch of {size}: {e}") from e


def _export(subject: Subject) -> None:
  function, params = _with_open_batch(subject)
  (batch,) = jax.export.symbolic_shape("batch")
  batched = _batched(subject.case)

  def shape(leaf: np.ndarray, position: int) -> Any:
    is_open = position in batched and leaf.ndim
    return jax.ShapeDtypeStruct((batch, *leaf.shape[1:]) if is_open else leaf.shape, _canonical(leaf))

  specs = [shape(leaf, position) for position, value in enumerate(subject.case.inputs) for leaf in tree.flatten(value)]

  def flat(*leaves: Leaf) -> list[Leaf]:
    return jax.tree.leaves(function(params, *tree.unflatten_as(subject.case.inputs, list(leaves)))[0])

  exported = jax.export.deserialize(jax.export.export(jax.jit(flat))(*specs).serialize())
  for size in _BATCH_SIZES[1:]:
    inputs = _resized(subject.case, size)
    outputs = exported.call(*[leaf.astype(_canonical(leaf)) for leaf in tree.flatten(inputs)])
    nested = subject.oracle.value(inputs)
    expected = [leaf for leaf in jax.tree.leaves(nested) if leaf is not None]
    compare_flat(outputs, expected, subject.tolerance(), _numbered(expected))


def _circle(subject: Subject) -> None:
  oracle, inputs = subject.oracle, subject.case.inputs
  circle = around(subject.function, subject.params, inputs)
  outputs = jax.jit(circle.function)(circle.params, subject.leaves)
  expected = [leaf for leaf in jax.tree.leaves(oracle.value(inputs)) if leaf is not None]
  compare_flat(outputs, expected, subject.tolerance(), _numbered(expected))
  rtol, atol = subject.tolerance()
  tolerance = rtol, max(rtol, atol)  # of derivatives too, but relative to the largest element
  if "grad" in subject.case.checks:
    points, loss = _loss_of_inputs(subject, lambda leaves: circle.function(circle.params, leaves))
    wanted = oracle.gradient(inputs)
    names = [f"gradient {i}" for i in range(len(wanted))]
    compare_flat(jax.jit(jax.grad(loss))(points), wanted, tolerance, names)
  if "param_grad" in subject.case.checks:
    trainable = [circle.names[name] for name in _trainable_names(subject)]

    def parameter_loss(values: Mapping[str, Leaf]) -> Leaf:
      return _weighted_sum(circle.function({**circle.params, **values}, subject.leaves))

    gradients = jax.jit(jax.grad(parameter_loss))({name: circle.params[name] for name in trainable})
    compare_flat([gradients[name] for name in trainable], oracle.parameter_gradient(inputs), tolerance, trainable)


RUN_CHECK: Mapping[str, Callable[[Subject], None]] = {
  "value": _value,
  "jit": _jit,
  "grad": _grad,
  "param_grad": _param_grad,
  "vmap": _vmap,
  "second_order": _second_order,
  "state": _state,
  "batch": _batch,
  "export": _export,
  "circle": _circle,
}
"""The checks by name; each raises if the converted program differs from TensorFlow."""


def _loss_of_inputs(
  subject: Subject, call: Callable[[Sequence[Any]], Any] | None = None
) -> tuple[list[Any], Callable[[Sequence[Any]], Any]]:
  """Returns the real inputs, and the loss as a function of them; `call` is the converted function by default."""
  leaves = subject.leaves
  run = call or (lambda leaves: subject.call(subject.params, leaves)[0])
  positions = [i for i, leaf in enumerate(leaves) if is_real(leaf)]

  def loss(points: Sequence[Leaf]) -> Leaf:
    arguments: list[Leaf] = [jnp.asarray(leaf) for leaf in leaves]
    for position, point in zip(positions, points, strict=True):
      arguments[position] = point
    return _weighted_sum(run(arguments))

  # Under `jit` a rule for derivatives runs after the function was traced, so it must not refer to values of that trace.
  return [jnp.asarray(leaves[i]) for i in positions], jax.jit(loss)


def _weighted_sum(outputs: PyTree) -> Leaf:
  """Returns the same loss as `Oracle`: the sum of all real and imaginary parts, each times a fixed weight."""
  total = jnp.zeros([])
  for leaf in tree.flatten(outputs):
    if not hasattr(leaf, "dtype") or not jnp.issubdtype(leaf.dtype, jnp.inexact):
      continue
    parts = [leaf.real, leaf.imag] if jnp.issubdtype(leaf.dtype, jnp.complexfloating) else [leaf]
    for seed, part in enumerate(parts):
      total += jnp.sum(part * cotangent(part.shape, seed).astype(part.dtype))
  return total


def _parameter_names(subject: Subject) -> list[str]:
  """Returns the parameter name of each TensorFlow variable, matched by order if shapes agree, else by name."""
  variables, params = subject.oracle.variables, subject.params
  if len(params) != len(variables):
    raise Difference(f"{len(params)} parameters {list(params)} instead of {len(variables)} variables")
  shapes = [tuple(variable.shape) for variable in variables]
  if [np.shape(value) for value in params.values()] == shapes:
    return list(params)
  names = [variable.name.removesuffix(":0") for variable in variables]
  if sorted(names) != sorted(params):
    raise Difference(f"parameters {list(params)} are not the variables {names}")
  return names


def _trainable_names(subject: Subject) -> list[str]:
  """Returns the parameter name of each variable that the oracle differentiates."""
  names = {id(v): n for n, v in zip(_parameter_names(subject), subject.oracle.variables, strict=True)}
  return [names[id(variable)] for variable in subject.oracle.trainable_variables]


def _compare_leaves(subject: Subject, outputs: PyTree, expected: Sequence[np.ndarray | None]) -> None:
  """Compares the result of a compiled call with flat results of TensorFlow, in which JAX drops None."""
  arrays = [leaf for leaf in expected if leaf is not None]
  outputs = without_padding(outputs)
  compare_flat(jax.tree.leaves(outputs), _in_jax_order(outputs, arrays), subject.tolerance(), _numbered(arrays))


def _in_jax_order(outputs: PyTree, expected: Sequence[np.ndarray]) -> list[np.ndarray]:
  """Returns `expected`, which is in dm-tree's order, reordered to JAX's order of the leaves of `outputs`."""
  numbers = iter(range(len(expected)))
  numbered = tree.map_structure(lambda leaf: leaf if leaf is None else next(numbers), outputs)
  return [expected[i] for i in jax.tree.leaves(numbered)]


def _numbered(expected: Sequence[Any]) -> list[str]:
  return [f"result {i}" for i in range(len(expected))]


def _batched(case: ConversionCase) -> tuple[int, ...]:
  return tuple(range(len(case.inputs))) if case.batched is None else case.batched


def _with_open_batch(subject: Subject) -> tuple[Callable[..., Any], Mapping[str, Any]]:
  oracle = subject.oracle
  return subject.converter.convert(oracle.function, oracle.specs(subject.case.inputs, _batched(subject.case)))


def _resized(case: ConversionCase, size: int) -> tuple[PyTree, ...]:
  def resized(leaf: np.ndarray) -> np.ndarray:
    return np.resize(leaf, (size, *leaf.shape[1:])) if leaf.ndim else leaf

  batched = _batched(case)
  return tuple(
    tree.map_structure(resized, value) if position in batched else value for position, value in enumerate(case.inputs)
  )


def _canonical(leaf: np.ndarray) -> np.dtype:
  return np.dtype(jax.dtypes.canonicalize_dtype(leaf.dtype))
