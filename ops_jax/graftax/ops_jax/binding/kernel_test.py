"""Kernels: static inputs that are traced, and the printed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.graphdef_ir import DType, Node, OpArg, OpSignature, TensorRef, op_signature
from graftax.ops_jax import (
  Int64Pair,
  Lowering,
  RegistrationError,
  ResourceHandle,
  StaticInputError,
  as_int64_pair,
  bind,
  lowering,
)
from graftax.ops_jax._core.registry import InputParameter

_OUTPUTS = (OpArg("y", DType.INT32),)
_ONE = OpSignature("MyOp", inputs=(OpArg("sizes", DType.INT32),), outputs=_OUTPUTS)
_LIST = OpSignature("MyOp", inputs=(OpArg("sizes", DType.INT32, number_attr="N"),), outputs=_OUTPUTS)


def _kernel(static_type, signature, num_inputs=1):
  entry = Lowering(lambda sizes: (sizes,), (InputParameter("sizes", static_type),), {}, frozenset({"N"}), False)
  attrs = {} if signature is _ONE else {"N": num_inputs}
  node = Node("my_node", "MyOp", tuple(TensorRef("x", i) for i in range(num_inputs)), attrs=attrs)
  return bind(node, signature, entry, "my_function")


def _refuses(static_type, signature, *inputs):
  kernel = _kernel(static_type, signature, len(inputs))
  match = r"MyOp node 'my_node' \(function 'my_function'\): input 'sizes'"
  with pytest.raises(StaticInputError, match=match):
    kernel.run(None, list(inputs))


@pytest.mark.parametrize("static_type", [int, float, bool, str, np.ndarray, tuple[int, ...], tuple[float, ...]])
@pytest.mark.parametrize("transform", [jax.jit, jax.vmap, jax.grad])
def test_a_tracer_is_named(static_type, transform):
  def call(x):
    _refuses(static_type, _ONE, x)
    return x

  transform(call)(jnp.ones(2) if transform is jax.vmap else jnp.float32(1))


@pytest.mark.parametrize("static_type", [tuple[int, ...], np.ndarray, int])
def test_a_tracer_in_a_list_is_named(static_type):
  @jax.jit
  def call(x):
    _refuses(static_type, _LIST, np.int32(1), x)
    _refuses(static_type, _LIST, x, x)
    return x

  call(jnp.int32(1))


def test_a_traced_pair_is_named():
  @jax.jit
  def call(x):
    _refuses(tuple[int, ...], _ONE, x)
    return x

  assert isinstance(call(as_int64_pair(np.array([1, 2**40]))), Int64Pair)


@pytest.mark.parametrize("value", [ResourceHandle("table"), np.array([b"seven"], object), None])
@pytest.mark.parametrize("static_type", [int, tuple[int, ...]])
def test_a_value_that_is_not_a_number_is_named(static_type, value):
  _refuses(static_type, _ONE, value)


def test_known_values_are_decoded():
  assert _kernel(tuple[int, ...], _LIST, 2).run(None, [np.int32(3), jnp.int32(4)]) == ((3, 4),)
  assert _kernel(tuple[int, ...], _LIST, 0).run(None, []) == ((),)
  assert _kernel(tuple[int, ...], _ONE).run(None, [np.array([3, 4])]) == ((3, 4),)
  assert _kernel(int, _ONE).run(None, [np.array([3])]) == (3,)


def test_symbolic_dimensions_stay_symbolic():
  (n,) = jax.export.symbolic_shape("n")
  dims = np.empty(2, object)
  dims[:] = [n, 3]
  assert _kernel(tuple[int, ...], _ONE).run(None, [dims]) == ((n, 3),)
  scalar = np.empty((), object)
  scalar[()] = n
  assert _kernel(tuple[int, ...], _LIST, 2).run(None, [scalar, np.int32(3)]) == ((n, 3),)


def _printed(op, inputs=(), **attrs):
  node = Node("my_node", op, inputs, attrs=attrs)
  return str(bind(node, op_signature(op), lowering(op), "my_function")).splitlines()


def test_a_kernel_prints_its_node_function_attributes_and_stages():
  assert _printed("LeakyRelu", T=DType.FLOAT, alpha=0.5) == [
    "LeakyRelu node 'my_node' (function 'my_function'): graftax.ops_jax.nn.activations.leaky_relu(alpha=0.5)"
  ]
  assert _printed("ConcatV2", N=2, T=DType.FLOAT, Tidx=DType.INT32) == [
    "ConcatV2 node 'my_node' (function 'my_function'): graftax.ops_jax.array.concat_split.concat_v2()",
    "  promote floats: inputs (0, 1)",
    "  symbolic dimensions: computed on if all inputs are known",
    "  group lists: [0:2], 2",
    "  decode static inputs: axis as int",
  ]


@pytest.mark.parametrize(
  ("op", "attrs", "line"),
  [
    ("Mul", {"T": DType.INT64}, "int64_pairs.arithmetic_ops.mul(T=dtype('int64'))"),
    ("Reshape", {"T": DType.INT64, "Tshape": DType.INT32}, "once per half of inputs [0]"),
    ("Shape", {"T": DType.INT64}, "by shapes"),
    ("Cumsum", {"T": DType.INT64, "Tidx": DType.INT32}, "refused"),
  ],
)
def test_a_kernel_prints_how_it_handles_64_bit_pairs(op, attrs, line):
  assert [part for part in _printed(op, **attrs) if "64-bit pairs" in part and part.endswith(line)]


def test_a_node_of_floats_has_no_stage_for_integers():
  kernel = bind(Node("my_node", "Relu", attrs={"T": DType.FLOAT}), op_signature("Relu"), lowering("Relu"))
  assert kernel.stages == () and kernel.is_pure


def test_binding_a_lowering_with_too_few_inputs_raises():
  entry = Lowering(lambda: (), (), {}, frozenset(), False)
  any_type = OpSignature("MyOp", inputs=(OpArg("x", type_attr="T"),), outputs=_OUTPUTS)
  for signature, dtype in ((_ONE, DType.INT32), (None, DType.INT32), (any_type, DType.STRING), (any_type, DType.INT64)):
    node = Node("my_node", "MyOp", (TensorRef("x", 0),), attrs={"T": dtype})
    with pytest.raises(RegistrationError, match=r"MyOp node 'my_node'.*the op has 1 inputs, but .*has \[\]"):
      bind(node, signature, entry, "my_function")
