"""`jax_program`: a JAX function as a `Program`, without TensorFlow."""

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax

from graftax.convert.errors import ConversionError
from graftax.convert.jax2tf.large_constants import with_constants_as_inputs
from graftax.convert.jax2tf.nested_structures import argument_layout, portable_structure
from graftax.convert.jax2tf.node_forms import LoweringName, node_form
from graftax.convert.jax2tf.parameter_variables import parameter_variables
from graftax.convert.jax2tf.program_assembly import ProgramAssembly
from graftax.convert.jax2tf.traced_function import PLATFORMS, TracedFunction, trace
from graftax.convert.program import Program
from graftax.convert.pytrees import PyTree
from graftax.convert.structures.nested import InputStructure, OutputStructure
from graftax.graphdef_ir import FunctionLibrary, OpSignatures
from graftax.ops_jax import ResourceHandle

if TYPE_CHECKING:
  from graftax.xla_call_module.exporting import Target

__all__ = ["jax_program"]


def jax_program(
  function: Callable[..., Any],
  args: Sequence[PyTree] = (),
  kwargs: Mapping[str, PyTree] | None = None,
  *,
  params: PyTree = None,
  name: str | None = None,
  gradient_order: int = 2,
  with_gradient: bool = True,
  forward_mode: bool = False,
  target: "Target | str | None" = None,
  platforms: Sequence[str] | None = None,
  disabled_checks: Sequence[jax.export.DisabledSafetyCheck] = (),
  lowering: LoweringName = "stablehlo",
) -> Program:
  """Returns a JAX function as a program that TensorFlow can run, or that can be written as a SavedModel.

  The program runs one StableHLO module, or plain TensorFlow ops. Its gradients are those of `jax.vjp`, one module or
  one function of plain ops for each order.

  Args:
    function: any JAX function of nested arrays. It is called once, with tracers.
    args: nested positional arguments: arrays, or anything with `shape` and `dtype`, such as `jax.ShapeDtypeStruct`.
      Dimensions that are symbolic (`jax.export.symbolic_shape`) are open in TensorFlow.
    kwargs: keyword arguments, likewise.
    params: a pytree that is the first argument of `function`. Each leaf becomes a variable, named by its path, such as
      "dense/kernel". A leaf may be a `jax.ShapeDtypeStruct`; its value is then zeros.
    name: the name of the program; by default that of the function.
    gradient_order: how often TensorFlow can differentiate the program. If JAX cannot differentiate it so often, or a
      derivative calls back to Python, TensorFlow raises an error with the reason where it tries.
    with_gradient: if it is false, TensorFlow raises an error if the program is differentiated.
    forward_mode: whether TensorFlow's forward mode works, too; it needs one more order.
    target: the TensorFlow that will run the program, see `Target.of`. With `lowering="tf_ops"`, "onnx", "tflite" or
      "tfjs" if a converter to one of these will read it: ops that it does not have are replaced or refused.
    platforms: "cpu", "cuda", "rocm", "tpu"; None is JAX's default backend.
    disabled_checks: `jax.export.DisabledSafetyCheck`s.
    lowering: "stablehlo" for an XlaCallModule node; "tf_ops" for plain TensorFlow ops, which TF.js, ONNX converters and
      builds of TensorFlow without XLA run. It has no `platforms` and `disabled_checks`. Beyond
      `gradient_order`, TensorFlow differentiates plain ops by itself; rules of `jax.custom_vjp` do not hold there.

  Raises:
    ConversionError: the arguments do not fit the function, one is not an array, TensorFlow does not
      have a dtype, `gradient_order` is negative, or a platform is not known.
    UnsupportedPrimitiveError: some operations have no form in plain TensorFlow ops, or in those of the target; the
      message lists all of them.
    VersionError: the target is not known, or too old for an op of the function.
    UnsupportedModuleError: the function has side effects or communicates between devices.

  Example:
    >>> from graftax.convert import convert_program
    >>> program = jax_program(lambda params, x: x * params["scale"], [2.0], params={"scale": 3.0})
    >>> fn, variables = convert_program(program)
    >>> list(variables), fn(variables, 2.0)[0].item()
    (['scale'], 6.0)
  """
  _check_options(function, gradient_order, platforms)
  form = node_form(lowering, target=target, platforms=platforms, disabled_checks=disabled_checks)
  name = name or _name_of(function)
  bound = () if params is None else (params,)
  layout = argument_layout(function, len(bound), args, kwargs or {}, name)
  results: list[PyTree] = []
  traced = trace(_recording(function, results), (*bound, *args), kwargs, name=name)
  _refuse_captures(traced)
  variables = parameter_variables(params, traced.name) if bound else {}
  traced, constants = with_constants_as_inputs(traced)
  assembly = ProgramAssembly(traced, tuple(variables), (layout.args, layout.kwargs), results[0], form, constants)
  order = gradient_order + bool(forward_mode) if with_gradient else None
  if order == 0 and not form.differentiates_itself:
    order = None
  main, gradients = assembly.functions(order)
  args_specs, kwargs_specs = assembly.input_specs
  return Program(
    name=traced.name,
    doc=getattr(function, "__doc__", None),
    function=main,
    library=FunctionLibrary(gradients.functions),
    signatures=OpSignatures(),
    captures=tuple(map(ResourceHandle, variables)),
    variables=variables,
    gradients=gradients.gradients,
    inputs=InputStructure(args_specs, kwargs_specs, layout.signature),
    outputs=OutputStructure(assembly.output_specs),
  )


def _check_options(function: Any, gradient_order: Any, platforms: Any) -> None:
  if not isinstance(gradient_order, int) or gradient_order < 0:
    raise ConversionError(f"gradient_order={gradient_order!r}; expected 0, 1, 2 or more.")
  if platforms is not None and (isinstance(platforms, str) or not set(platforms) <= set(PLATFORMS)):
    raise ConversionError(f"platforms={platforms!r}; expected None, or a sequence of some of {PLATFORMS}.")
  if not callable(function):
    raise ConversionError(f"got a {type(function).__name__}, which cannot be called; expected a JAX function.")


def _refuse_captures(traced: TracedFunction) -> None:
  if traced.captured:
    names = [variable.name for variable in traced.captured]
    raise ConversionError(
      f"{traced.name}: reads the TensorFlow variables {names!r} through call_tf, which only jax2tf.convert can "
      f"capture. Use call_tf(f, variables='explicit'), and pass their values as params."
    )


def _recording(function: Callable[..., Any], results: list[PyTree]) -> Callable[..., Any]:
  """Returns the function; its calls add the structure of their result to `results`."""

  @functools.wraps(function)
  def call(*args: PyTree, **kwargs: PyTree) -> PyTree:
    result = function(*args, **kwargs)
    results.append(portable_structure(result, itertools.count()))
    return result

  return call


def _name_of(function: Callable[..., Any]) -> str:
  found = getattr(function, "__name__", None) or type(function).__name__
  return "function" if found == "<lambda>" else str(found)
