"""`plain_ops`: a traced JAX function as plain TensorFlow ops."""

import hashlib
from collections.abc import Sequence

import jax
import numpy as np

from graftax.convert.jax2tf.module_nodes import FunctionBody
from graftax.convert.jax2tf.tf_ops.builder import Builder, Library
from graftax.convert.jax2tf.tf_ops.interpreter import run_jaxpr
from graftax.convert.jax2tf.tf_ops.refusals import Refusals
from graftax.convert.jax2tf.tf_ops.registry import Unsupported
from graftax.convert.jax2tf.tf_ops.size_checks import check_sizes, size_of_axis
from graftax.convert.jax2tf.tf_ops.symbols import SizeSource, size_sources
from graftax.convert.jax2tf.tf_ops.tensors import Tensor
from graftax.convert.jax2tf.traced_function import TracedFunction
from graftax.graphdef_ir import Function, Result, TensorRef, prune

__all__ = ["description", "plain_ops"]


def description(traced: TracedFunction) -> str:
  """Returns text that differs for functions that compute different things."""
  consts = (hashlib.sha256(np.ascontiguousarray(_data(const)).tobytes()).hexdigest() for const in traced.jaxpr.consts)
  return "\n".join([str(traced.jaxpr), str(traced.enable_x64), *consts])


def plain_ops(
  traced: TracedFunction, operands: Sequence[TensorRef], prefix: str, consumer: str | None = None
) -> FunctionBody:
  """Returns nodes that compute a traced function of tensors.

  Args:
    traced: the function.
    operands: the tensors for its inputs.
    prefix: the beginning of the names of functions in the library, which branches and loops become.
    consumer: the converter that will read the nodes; see `Library`.

  Raises:
    UnsupportedPrimitiveError: some operations have no form in TensorFlow ops, or in those of the consumer; the
      message lists all of them.
  """
  b, results = _nodes(traced, operands, Library(prefix, Refusals(), consumer))
  if b.library.refusals.found and b.library.has_platform_choice:
    b, results = _nodes(traced, operands, Library(prefix, Refusals(), consumer, prefers_cpu=True))
  if b.library.refusals.found:
    raise b.library.refusals.error(traced.name)
  refs = tuple(b.ref(result) for result in results)
  wanted = Function(
    "body",
    (),
    tuple(Result("", ref, r.spec.dtype) for r, ref in zip(results, refs, strict=True)),
    tuple(b.nodes),
    tuple(b.effects),
  )
  specs = tuple(result.spec for result in results)
  return FunctionBody(prune(wanted).nodes, refs, specs, b.library.functions, wanted.control_results)


def _nodes(traced: TracedFunction, operands: Sequence[TensorRef], library: Library) -> tuple[Builder, list[Tensor]]:
  """Returns the results of a traced function, with the nodes that compute them; what has no form is in `library`."""
  b = Builder(library)
  tensors = [Tensor(spec.shape, spec.dtype, ref) for spec, ref in zip(traced.inputs, operands, strict=True)]
  tensors = _between_words(b, tensors, "argument")
  sources = size_sources([tensor.shape for tensor in tensors])
  for name, source in sources.items():
    b.symbols[name] = _size(b, tensors[source.position], source)
  if library.consumer is None:
    tensors = check_sizes(b, traced.name, tensors, traced.input_names, sources)
  with jax.enable_x64(traced.enable_x64):
    results = run_jaxpr(b, traced.jaxpr, tensors)
  b.scope = "results"
  return b, _between_words(b, results, "result")


def _between_words(b: Builder, tensors: Sequence[Tensor], what: str) -> list[Tensor]:
  """Returns arguments or results, those of uint32 in the form that `words` says."""
  found = []
  for tensor in tensors:
    try:
      converted = b.between_words(tensor, is_argument=what == "argument")
      b.ref(converted)
    except Unsupported as e:
      b.library.refusals.found[what, str(e)].append("")
      converted = tensor
    found.append(converted)
  return found


def _size(b: Builder, tensor: Tensor, source: SizeSource) -> Tensor:
  """Returns the size of a symbolic dimension, read from the shape of an argument."""
  size = size_of_axis(b, tensor, source.axis)
  for name, count in source.others.items():
    size = b.op("Sub", size, b.op("Mul", b.symbols[name], np.int32(count), shape=()), shape=())
  if source.offset:
    size = b.op("Sub", size, np.int32(source.offset), shape=())
  return size if source.factor == 1 else b.op("FloorDiv", size, np.int32(source.factor), shape=())


def _data(const: jax.Array | np.ndarray) -> np.ndarray:
  if jax.numpy.issubdtype(const.dtype, jax.dtypes.prng_key):
    const = jax.random.key_data(const)
  return np.asarray(const)
