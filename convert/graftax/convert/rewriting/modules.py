"""`call_modules`: the StableHLO in a program, for tools that work with modules."""

import dataclasses

from graftax.convert.planning.preflight import preflight
from graftax.convert.program import Program
from graftax.convert.rewriting.call_module_nodes import CALL_MODULE
from graftax.graphdef_ir import FunctionRef, Limits, Node
from graftax.xla_call_module import ArgumentSpec, DerivativeError, Leaf, Module, Signature, Tree
from graftax.xla_call_module import Limits as ModuleLimits

__all__ = ["call_modules"]


def call_modules(program: Program, *, limits: Limits | None = None) -> dict[str, Module]:
  """Returns the XlaCallModule nodes that a program runs as modules, by `"function/node"`.

  jax2tf, orbax.export and Keras on JAX write such nodes. `convert` runs them as a part of the program; this is for
  tools that work with a module itself: lift, embed, save or inspect it. The signature of a module has flat arguments,
  under the names of the tensors that the node reads. Its derivative is that of the function around it, so reverse mode
  raises DerivativeError unless the module is lifted with `gradient="primal"`.

  Args:
    program: of `SavedModel.program()` or `jax_program`, for example.
    limits: how much memory and time a module may ask for while it is read.

  Raises:
    StableHloError: a module cannot be read.

  Example:
    >>> import jax, numpy as np
    >>> from graftax.convert import jax_program
    >>> from graftax.convert.rewriting import call_modules
    >>> from graftax.xla_call_module import lift
    >>> program = jax_program(jax.numpy.tanh, [jax.ShapeDtypeStruct((2,), "float32")], platforms=["cpu"])
    >>> (module,) = call_modules(program).values()
    >>> print(module, lift(module)(np.zeros(2, np.float32))[0])
    Module(float32[2]) -> (float32[2]) for cpu [0. 0.]
  """
  found = preflight(program)
  return {
    f"{function.name}/{node.name}": _module(node, limits)
    for function, nodes in found.functions
    for node in nodes
    if node.op == CALL_MODULE
  }


def _module(node: Node, limits: Limits | None) -> Module:
  attrs = node.attrs
  module = Module.from_call_module(
    version=_integer(attrs["version"]),
    module=_data(attrs["module"]),
    platforms=_texts(attrs.get("platforms")),
    disabled_checks=_texts(attrs.get("disabled_checks")),
    dim_args_spec=_texts(attrs.get("dim_args_spec")),
    function_list=_functions(attrs.get("function_list")),
    gradient=_gradient_of_the_function,
    limits=None if limits is None else ModuleLimits.like(limits),
  )
  if module.dim_args or module.function_list:
    return module  # a signature does not say these
  sources = [str(ref) for ref in node.inputs]
  signature = Signature(
    name=node.name,
    inputs=tuple(_leaf(path, spec) for path, spec in zip(sources, module.inputs, strict=False)),
    outputs=tuple(_leaf(f"{node.name}:{i}", spec) for i, spec in enumerate(module.outputs)),
    in_tree=Tree("tuple", (_flat(len(module.inputs)), Tree("dict"))),
    out_tree=_flat(len(module.outputs)),
  )
  return dataclasses.replace(module, signature=signature)


def _gradient_of_the_function() -> Module:
  raise DerivativeError(
    "the derivative of an XlaCallModule node is that of the TensorFlow function around it. Convert the model and"
    " differentiate the result, or lift with gradient='primal' for the derivative of the lifted code, which ignores"
    " derivatives that the author defined."
  )


def _flat(count: int) -> Tree:
  return Tree("tuple", (Tree("leaf"),) * count)


def _leaf(path: str, spec: ArgumentSpec) -> Leaf:
  return Leaf(path, tuple("?" if dim is None else dim for dim in spec.shape), spec.dtype.name)


def _integer(value: object) -> int:
  assert isinstance(value, int), "internal: a validated node has an integer"
  return value


def _data(value: object) -> bytes:
  assert isinstance(value, bytes), "internal: a validated node has bytes"
  return value


def _texts(value: object) -> tuple[str, ...]:
  values = value if isinstance(value, tuple | list) else ()
  return tuple(item.decode(errors="replace") if isinstance(item, bytes) else str(item) for item in values)


def _functions(value: object) -> tuple[str, ...]:
  values = value if isinstance(value, tuple | list) else ()
  return tuple(item.name if isinstance(item, FunctionRef) else str(item) for item in values)
