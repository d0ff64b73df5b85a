"""`jit_for_inference`: a converted function compiled together with fixed parameters."""

import contextlib
from collections.abc import Callable, Hashable, Mapping

import jax
import numpy as np
from jax.typing import DTypeLike

from graftax.convert import xla_options
from graftax.convert.annotated import AnnotatedFunction
from graftax.convert.errors import ConversionError
from graftax.convert.inference.freezing import freeze
from graftax.convert.pytrees import PyTree
from graftax.convert.shown_names import shown
from graftax.convert.trace_state import is_outside_of_transformations
from graftax.ops_jax import Value
from graftax.xla_call_module.lax_extras import with_contraction_barriers, xla_convolutions

__all__ = ["jit_for_inference"]

# XLA holds constants of a program several times while it compiles.
_MOST_BYTES = 1 << 30


def jit_for_inference(
  fn: AnnotatedFunction, params: Mapping[str, Value], *, compute_dtype: DTypeLike | None = None
) -> Callable[..., PyTree]:
  """Returns a converted function with fixed parameters, compiled for inference.

  The function is frozen as by `freeze`. On CPUs with x86-64 and jaxlib 0.12, which has oneDNN, its parameters become
  constants of the program, so that XLA lays out filters once, when it compiles, and not in each call. Convolutions and
  products are computed together with the bias and activation after them. Elsewhere, and for parameters of more than
  1 GiB, the parameters are arguments of the program, and are put on the device now.

  Args:
    fn: a function that `convert`, or `convert` of a SavedModel, returned.
    params: values of its parameters.
    compute_dtype: bfloat16 or float16, to compute matrix products and convolutions of float32 in that dtype, as
      `graftax.xla_call_module.with_compute_dtype` does. bfloat16 is faster on processors that have instructions for it.

  Returns:
    A function `predict(*args, rng=None, **kwargs) -> outputs` with the other arguments of `fn`. It compiles once for
    each set of shapes. Each of these programs holds the parameters, and JAX's compilation cache does not keep it. Other
    transformations of JAX can be applied to it; within them it is the frozen function, without oneDNN.

  Raises:
    ConversionError: `fn` is not a converted function with parameters. Also if it assigns parameters, when the result is
      called: use `graftax.convert.jit`.
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
  uses_onednn = jax.default_backend() == "cpu" and xla_options.has_onednn()
  embeds = uses_onednn and report.bytes_after <= _MOST_BYTES
  arrays = {name: value for name, value in fixed.items() if isinstance(value, np.ndarray | jax.Array)}
  # Arrays of JAX may be spread over devices; constants are not. Tables and strings are never arguments.
  constants = {**fixed, **({name: np.asarray(value) for name, value in arrays.items()} if embeds else {})}
  placed = {} if embeds else jax.device_put(arrays)

  def compute(placed: Mapping[str, Value], *args: PyTree, **kwargs: PyTree) -> PyTree:
    given = {**constants, **placed}
    outputs, new_params = frozen(given, *args, **kwargs)
    assigned = [name for name, value in new_params.items() if value is not given[name]]
    if assigned:
      raise ConversionError(
        f"jit_for_inference: {fn.name} assigns parameters: {shown(assigned)}. "
        "Use graftax.convert.jit, which returns their new values."
      )
    return outputs

  def compute_in_xla(placed: Mapping[str, Value], *args: PyTree, **kwargs: PyTree) -> PyTree:
    # Filters that are arguments would be laid out again in each call, which takes longer than other forms.
    with xla_convolutions() if embeds else contextlib.nullcontext():
      return compute(placed, *args, **kwargs)

  plain, fast = compute, compute_in_xla
  if compute_dtype is not None:
    # Imports what lifts StableHLO, which is slow and few programs need.
    from graftax.xla_call_module import with_compute_dtype

    plain, fast = with_compute_dtype(plain, compute_dtype), with_compute_dtype(fast, compute_dtype)
  fast = with_contraction_barriers(fast)
  transformed, traced = jax.jit(plain), jax.jit(fast)
  chosen: list[Callable[..., PyTree]] = []

  def choice(args: tuple[PyTree, ...], kwargs: Mapping[str, PyTree]) -> Callable[..., PyTree]:
    if not uses_onednn:
      return transformed
    try:
      options = xla_options.onednn_options(traced.trace(placed, *args, **kwargs).jaxpr)
    except NotImplementedError:
      return transformed
    return jax.jit(fast, compiler_options=options)

  seen: set[Hashable] = set()

  def predict(*args: PyTree, **kwargs: PyTree) -> PyTree:
    if not is_outside_of_transformations():
      return transformed(placed, *args, **kwargs)
    leaves, structure = jax.tree.flatten((args, kwargs))
    shapes = (structure, *((getattr(leaf, "shape", ()), getattr(leaf, "dtype", type(leaf))) for leaf in leaves))
    if shapes in seen:
      return chosen[0](placed, *args, **kwargs)
    with xla_options.without_compilation_cache():
      if not chosen:
        chosen.append(choice(args, kwargs))
      try:
        outputs = chosen[0](placed, *args, **kwargs)
      except NotImplementedError:  # of the barriers, for other shapes than those of the first call
        return transformed(placed, *args, **kwargs)
    seen.add(shapes)
    return outputs

  return predict
