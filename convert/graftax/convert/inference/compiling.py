"""`jit_for_inference`: a converted function compiled together with fixed parameters."""

import contextlib
from collections.abc import Callable, Hashable, Mapping

import jax
import numpy as np
from jax.typing import DTypeLike

from graftax.convert.annotated import AnnotatedFunction
from graftax.convert.errors import VariableWriteError
from graftax.convert.inference import onednn
from graftax.convert.inference.freezing import freeze
from graftax.convert.pytrees import PyTree
from graftax.convert.shown_names import shown
from graftax.convert.trace_state import is_outside_of_transformations
from graftax.ops_jax import Value
from graftax.xla_call_module.lax_extras import with_column_blocks, with_contraction_barriers, xla_convolutions

__all__ = ["jit_for_inference"]

# XLA holds constants of a program several times while it compiles.
_MOST_BYTES = 1 << 30

_Compute = Callable[..., PyTree]


def jit_for_inference(
  fn: AnnotatedFunction, params: Mapping[str, Value], *, compute_dtype: DTypeLike | None = None
) -> Callable[..., PyTree]:
  """Returns a converted function with fixed parameters, compiled for inference.

  The function is frozen as by `freeze`. On CPUs with x86-64 and jaxlib 0.12, which has oneDNN, its parameters become
  constants of the program, so that XLA lays out filters once, when it compiles, and not in each call. Convolutions and
  products are computed together with the bias and activation after them. Elsewhere, and for parameters of more than
  1 GiB, the parameters are arguments of the program, and are put on the device now. On CPUs,
  `graftax.convert.keep_freed_memory` makes calls with large intermediate results faster.

  Args:
    fn: a function that `convert`, or `convert` of a SavedModel, returned.
    params: values of its parameters.
    compute_dtype: bfloat16 or float16, to compute matrix products and convolutions of float32 in that dtype, as
      `graftax.xla_call_module.with_compute_dtype` does. On CPUs that have instructions for bfloat16, it is faster for
      dense convolutions and much slower for depthwise ones.

  Returns:
    A function `predict(*args, rng=None, **kwargs) -> outputs` with the other arguments of `fn`. It compiles once for
    each set of shapes. Each of these programs holds the parameters, and JAX's compilation cache does not keep it. Other
    transformations of JAX can be applied to it; within them it is the frozen function, without oneDNN.

  Raises:
    ConversionError: `fn` is not a converted function with parameters.
    VariableWriteError: when the result is called, if `fn` assigns parameters: use `graftax.convert.jit`.
    ParameterError: `params` does not have the names of its parameters.
    LimitExceededError: as for `freeze`.
    ArgumentError: another `compute_dtype`.

  Differs from the original: results round differently, as for `freeze`. As in TensorFlow on CPUs, `relu` makes 0 of NaN
  if it follows a convolution; other functions of values that are not finite may differ, too.

  Example:
    >>> import numpy as np
    >>> from graftax.convert import convert
    >>> from graftax.graphdef_ir import schema
    >>> from google.protobuf import text_format
    >>> graph = text_format.Parse(
    ...   \'\'\'
    ...   node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
    ...   node { name: "w" op: "VarHandleOp" attr { key: "dtype" value { type: DT_FLOAT } }
    ...          attr { key: "shape" value { shape { dim { size: 2 } } } } }
    ...   node { name: "read" op: "ReadVariableOp" input: "w" attr { key: "dtype" value { type: DT_FLOAT } } }
    ...   node { name: "y" op: "Mul" input: "x" input: "read" attr { key: "T" value { type: DT_FLOAT } } }
    ...   \'\'\',
    ...   schema.GraphDef(),
    ... )
    >>> variables = {"w": np.float32([1, 2])}
    >>> fn, params = convert(graph.SerializeToString(), inputs="x", outputs="y", variables=variables)
    >>> predict = jit_for_inference(fn, params)
    >>> predict(np.float32([3, 4])).tolist()
    [3.0, 8.0]
  """
  frozen, fixed, report = freeze(fn, params)
  uses_onednn = jax.default_backend() == "cpu" and onednn.has_onednn()
  embeds = uses_onednn and report.bytes_after <= _MOST_BYTES
  arrays = {name: value for name, value in fixed.items() if isinstance(value, np.ndarray | jax.Array)}
  # Arrays of JAX may be spread over devices; constants are not. Tables and strings are never arguments.
  constants = {**fixed, **({name: np.asarray(value) for name, value in arrays.items()} if embeds else {})}
  placed = {} if embeds else jax.device_put(arrays)
  compute = _outputs_of(frozen, constants)
  # Filters that are arguments would be laid out again in each call, which takes longer than other forms.
  in_xla = _with_convolutions_of_xla(compute) if embeds else compute
  if compute_dtype is not None:
    # Imports what lifts StableHLO, which is slow and few programs need.
    from graftax.xla_call_module import with_compute_dtype

    compute, in_xla = with_compute_dtype(compute, compute_dtype), with_compute_dtype(in_xla, compute_dtype)
  plain = jax.jit(compute)
  fast = _Programs(in_xla, plain) if uses_onednn else plain

  def predict(*args: PyTree, **kwargs: PyTree) -> PyTree:
    return (fast if is_outside_of_transformations() else plain)(placed, *args, **kwargs)

  return predict


def _outputs_of(frozen: AnnotatedFunction, constants: Mapping[str, Value]) -> _Compute:
  """Returns a function of the other parameters and the arguments that returns the outputs alone."""

  def compute(placed: Mapping[str, Value], *args: PyTree, **kwargs: PyTree) -> PyTree:
    given = {**constants, **placed}
    outputs, new_params = frozen(given, *args, **kwargs)
    assigned = [name for name, value in new_params.items() if value is not given[name]]
    if assigned:
      raise VariableWriteError(
        f"jit_for_inference: {frozen.name} assigns parameters: {shown(assigned)}. "
        "Use graftax.convert.jit, which returns their new values."
      )
    return outputs

  return compute


def _with_convolutions_of_xla(compute: _Compute) -> _Compute:
  def computed(*args: PyTree, **kwargs: PyTree) -> PyTree:
    with xla_convolutions():
      return compute(*args, **kwargs)

  return computed


def _type_of(leaf: object) -> tuple[object, object]:
  return getattr(leaf, "shape", ()), getattr(leaf, "dtype", type(leaf))


class _Programs:
  """A function compiled for CPUs with oneDNN, once for each set of shapes.

  What has few rows is compiled without oneDNN, and what can have no barriers as another function.
  """

  def __init__(self, function: _Compute, otherwise: _Compute) -> None:
    self._isolated, self._otherwise = with_contraction_barriers(function), otherwise
    self._for_few_rows = jax.jit(with_column_blocks(function), compiler_options=dict(onednn.FEW_ROWS_OPTIONS))
    self._with_onednn: list[_Compute] = []
    self._chosen: dict[Hashable, _Compute] = {}

  def __call__(self, placed: Mapping[str, Value], *args: PyTree, **kwargs: PyTree) -> PyTree:
    leaves, structure = jax.tree.flatten((args, kwargs))
    shapes = (structure, *map(_type_of, leaves))
    compute = self._chosen.get(shapes)
    if compute is not None:
      return compute(placed, *args, **kwargs)
    compute = self._choose(placed, *args, **kwargs)
    with onednn.without_compilation_cache() if compute in self._with_onednn else contextlib.nullcontext():
      outputs = compute(placed, *args, **kwargs)
    self._chosen[shapes] = compute
    return outputs

  def _choose(self, placed: Mapping[str, Value], *args: PyTree, **kwargs: PyTree) -> _Compute:
    try:
      program = jax.jit(self._isolated).trace(placed, *args, **kwargs).jaxpr
    except NotImplementedError:  # of the barriers
      return self._otherwise
    if onednn.has_few_rows(program):
      return self._for_few_rows
    if not self._with_onednn:
      # The options depend on the operations, which shapes do not change.
      self._with_onednn.append(jax.jit(self._isolated, compiler_options=onednn.onednn_options(program)))
    return self._with_onednn[0]
