"""Has TensorFlow compile ops without a lowering to StableHLO, each for itself: the option `fallback="tensorflow"`."""

import dataclasses
import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from graftax.convert._tensorflow import (
  TensorFlow,
  TfTensor,
  import_kernel_registry,
  import_tensorflow,
  outside_of_graphs,
)
from graftax.graphdef_ir import (
  DType,
  FunctionLibrary,
  Node,
  OpSignature,
  TensorRef,
  node_to_proto,
  outside_access,
  referenced_functions,
)
from graftax.graphdef_ir.errors import GraphError
from graftax.ops_jax import Array, InputParameter, Lowering, MissingOp, UnsupportedOpError, Value, is_known

__all__ = ["compiled_lowering", "obstacle"]

_PURPOSE = "fallback='tensorflow'"

# Named, because TensorFlow would draw a random number to find its default.
_DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"


def obstacle(node: Node, signature: OpSignature | None, library: FunctionLibrary) -> str | None:
  """Returns why TensorFlow cannot compile a node to StableHLO; None if it probably can.

  Raises:
    LibraryNotFoundError: TensorFlow is not installed.
  """
  if signature is None or node.op not in _registered_ops():
    return "the installed TensorFlow does not have it"
  if signature.is_stateful:
    return "it has side effects or state"
  access = outside_access(node, is_stateful=False)
  if access is not None:
    return f"it {access}"
  if next(referenced_functions(node, library), None) is not None:
    return "it calls functions"
  try:
    dtypes = {*signature.input_types(node.attrs), *signature.output_types(node.attrs)}
  except GraphError as e:
    return str(e).removesuffix(".")
  opaque = sorted(dtype.tf_name for dtype in dtypes if not _is_number(dtype))
  if opaque:
    return f"its inputs or results are of type {', '.join(opaque)}"
  if node.op not in _compiled_ops():
    return "its compiler does not have it"
  return None


def compiled_lowering(node: Node, signature: OpSignature) -> Lowering:
  """Returns the lowering of one node, which TensorFlow compiles when shapes are known.

  Inputs that are known while tracing are constants of the compiled code. Derivatives are those of the StableHLO.
  """
  inputs = tuple(InputParameter(arg.name, None) for arg in signature.inputs)
  return Lowering(_CompiledOp(node, signature), inputs, {}, frozenset(signature.attrs), needs_context=False)


class _CompiledOp:
  """A node as a function of its inputs; keeps what TensorFlow compiled for each combination of shapes and constants."""

  def __init__(self, node: Node, signature: OpSignature):
    self.__name__ = self.__qualname__ = f"{node.op} compiled by TensorFlow"
    self._graph = _OneNode(node, signature)
    self._lifted: dict[Any, Callable[..., Sequence[Any]]] = {}

  def __call__(self, *inputs: Value) -> Value:
    flat = [tensor for value in inputs for tensor in (value if isinstance(value, list | tuple) else [value])]
    constants = {i: np.asarray(value) for i, value in enumerate(flat) if is_known(value)}
    arrays = [value for i, value in enumerate(flat) if i not in constants]
    self._check_shapes(arrays)
    key = (
      jax.config.jax_enable_x64,
      tuple((array.shape, array.dtype) for array in arrays),
      tuple((i, value.shape, value.dtype, value.tobytes()) for i, value in constants.items()),
    )
    if key not in self._lifted:
      specs = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays]
      self._lifted[key] = self._graph.lifted(specs, constants)
    results = tuple(self._lifted[key](*arrays))
    return results[0] if len(results) == 1 else results

  def _check_shapes(self, arrays: Sequence[Array]) -> None:
    symbolic = [list(array.shape) for array in arrays if not all(isinstance(dim, int) for dim in array.shape)]
    if symbolic:
      raise UnsupportedOpError(
        f"{self._graph.node.op} has no JAX lowering, and TensorFlow compiles it for known shapes only; its inputs have "
        f"the symbolic shapes {', '.join(map(_spelled, symbolic))}. If only the batch size is symbolic, pass "
        f"jax.vmap of the function for one example. Otherwise, pass known shapes, or register a lowering with "
        f"@graftax.ops_jax.register({self._graph.node.op!r}).",
        ops=[MissingOp(self._graph.node.op, (), "TensorFlow compiles it for known shapes only", "pass known shapes")],
      )


@dataclasses.dataclass(frozen=True, slots=True)
class _OneNode:
  """A graph of one node.

  Attributes:
    node: the node.
    signature: the signature of its op.
  """

  node: Node
  signature: OpSignature

  def lifted(
    self, specs: Sequence[jax.ShapeDtypeStruct], constants: dict[int, np.ndarray]
  ) -> Callable[..., Sequence[Any]]:
    """Returns the node as a JAX function of the inputs that are not constants.

    Raises:
      UnsupportedOpError: TensorFlow does not compile it, or JAX has no counterpart of the result.
    """
    from graftax.xla_call_module import Module, StableHloError, lift

    tf = import_tensorflow(_PURPOSE)
    try:
      with outside_of_graphs(tf):
        hlo = _compiled_hlo(tf, self._in_tensorflow(tf, constants), specs)
      # Its 64-bit numbers end inside of the module if 64-bit types are off.
      return lift(Module.from_hlo(hlo, guard=False), x64="enable")
    except (tf.errors.OpError, ValueError, StableHloError) as e:
      reason = str(e).strip().partition("\n")[0]
      raise UnsupportedOpError(
        f"{self.node.op} has no JAX lowering, and TensorFlow does not compile it here: {type(e).__name__}: {reason}",
        ops=[MissingOp(self.node.op, (), reason, f"@graftax.ops_jax.register({self.node.op!r})")],
      ) from e

  def _in_tensorflow(self, tf: TensorFlow, constants: dict[int, np.ndarray]) -> Callable[..., list[TfTensor]]:
    """Returns a TensorFlow function of the inputs that are not constants, with results of dtypes that JAX has."""
    attrs = {name: value for name, value in self.node.attrs.items() if not name.startswith("_")}
    dtypes = [tf.as_dtype(int(dtype)) for dtype in self.signature.input_types(attrs)]
    names = [f"input_{i}" for i in range(len(dtypes))]
    node = dataclasses.replace(
      self.node, name="node", inputs=tuple(map(TensorRef, names)), control_inputs=(), attrs=attrs, device=""
    )
    graph_def = tf.compat.v1.GraphDef()
    graph_def.node.add().ParseFromString(node_to_proto(node).SerializeToString())
    outputs = [f"node:{i}" for i in range(self.signature.num_outputs(attrs))]

    def run(*tensors: TfTensor) -> list[TfTensor]:
      rest = iter(tensors)
      given = [tf.constant(constants[i]) if i in constants else next(rest) for i in range(len(dtypes))]
      # Floats may be narrower than the graph declares, such as bfloat16 parameters, and 64-bit types may be off.
      cast = {f"{name}:0": tf.cast(x, dtype) for name, x, dtype in zip(names, given, dtypes, strict=True)}
      results = tf.graph_util.import_graph_def(graph_def, input_map=cast, return_elements=outputs, name="")
      return [tf.cast(x, jax.dtypes.canonicalize_dtype(x.dtype.as_numpy_dtype)) for x in results]

    return run


def _compiled_hlo(tf: TensorFlow, function: Callable[..., Any], specs: Sequence[jax.ShapeDtypeStruct]) -> bytes:
  """Returns the HLO to which TensorFlow compiles a function, as a serialized `HloModuleProto`."""
  compiled = tf.function(function, autograph=False, jit_compile=True)
  compiler_ir = compiled.experimental_get_compiler_ir(*(tf.TensorSpec(spec.shape, spec.dtype) for spec in specs))
  with warnings.catch_warnings():
    # Until TensorFlow's platform_name draws no random number either: device_name is deprecated in its favor.
    warnings.filterwarnings("ignore", message="device_name is being deprecated")
    hlo: bytes = compiler_ir(stage="hlo_serialized", device_name=_DEVICE)
  return hlo


@functools.cache
def _registered_ops() -> frozenset[str]:
  import_tensorflow(_PURPOSE)
  return frozenset(kernel.op for kernel in import_kernel_registry().get_all_registered_kernels().kernel)


@functools.cache
def _compiled_ops() -> frozenset[str]:
  """Returns the ops that TensorFlow's compiler has. It registers them when it first compiles anything."""
  tf = import_tensorflow(_PURPOSE)
  with outside_of_graphs(tf):
    _compiled_hlo(tf, lambda: tf.constant(0), ())
  kernels = import_kernel_registry().get_all_registered_kernels().kernel
  return frozenset(kernel.op for kernel in kernels if kernel.device_type == "XLA_CPU_JIT")


def _is_number(dtype: DType) -> bool:
  return dtype not in (DType.STRING, DType.RESOURCE, DType.VARIANT)


def _spelled(shape: Sequence[object]) -> str:
  return f"[{', '.join(map(str, shape))}]"
