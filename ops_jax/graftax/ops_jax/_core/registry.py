"""The registry of lowerings: TensorFlow op name -> JAX function, with the Python signature as the schema.

Positional parameters are the op's tensor inputs, in the op's order. Keyword-only parameters are its attributes.
`Static[...]` marks an input that must be known while tracing. A first parameter annotated `Context` gives access to
the program that contains the node; a keyword-only parameter annotated `IntegerFacts`, to what is known of traced
integers; one annotated `Budget`, to the limits of the call. Attributes that several ops share are the keys of a
`TypedDict`: `**attrs: Unpack[ConvAttrs]`.
"""

import dataclasses
import functools
import importlib
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from graftax.graphdef_ir import Budget
from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.errors import RegistrationError
from graftax.ops_jax._core.integer_facts import IntegerFacts
from graftax.ops_jax._core.lowering_modules import LOWERING_MODULES
from graftax.ops_jax._core.values import SIZE_MARKER, STATIC_MARKER, UNCONVERTED_MARKER

__all__ = [
  "BoundedRule",
  "InputParameter",
  "Lowering",
  "is_builtin",
  "lowering",
  "read_lowering",
  "register",
  "registered_bounded_rules",
  "supported_ops",
]


@dataclasses.dataclass(frozen=True, slots=True)
class InputParameter:
  """One tensor input of a lowering.

  Attributes:
    name: the op's input argument name.
    static_type: the type to decode a known value to, or None if the input may be traced.
    unconverted: whether symbolic dimensions are passed unchanged even if other inputs are traced.
    is_size: whether it is a size, or several, of what the lowering makes.
  """

  name: str
  static_type: Any | None
  unconverted: bool = False
  is_size: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Lowering:
  """A JAX implementation of a TensorFlow op, with the schema read from its signature.

  Attributes:
    function: the Python function.
    inputs: its tensor inputs, in the op's order.
    attrs: maps attribute names to annotated types.
    ignores: attributes that the function does not need, such as types that the inputs have anyway.
    needs_context: whether the first argument is the `Context`.
    needs_facts: whether there is a keyword argument `facts`. A lowering with a `Context` reads the facts from there.
    needs_budget: the same for a keyword argument `budget`.
    symbolic: whether known inputs with symbolic dimensions are passed unchanged, if all inputs are known.
    data_inputs: names of the inputs whose elements it only rearranges, whatever their values.
    compared_inputs: names of the inputs whose elements it only rearranges and compares.
    known_inputs: names of the inputs that it reads in NumPy if they are known.
    static_inputs: positions of the inputs that must be known.
  """

  function: Callable[..., Any]
  inputs: tuple[InputParameter, ...]
  attrs: Mapping[str, Any]
  ignores: frozenset[str]
  needs_context: bool
  needs_facts: bool = False
  needs_budget: bool = False
  symbolic: bool = False
  data_inputs: frozenset[str] = frozenset()
  compared_inputs: frozenset[str] = frozenset()
  known_inputs: frozenset[str] = frozenset()
  static_inputs: frozenset[int] = dataclasses.field(init=False, repr=False, compare=False)

  def __post_init__(self) -> None:
    static = frozenset(i for i, parameter in enumerate(self.inputs) if parameter.static_type is not None)
    object.__setattr__(self, "static_inputs", static)


@dataclasses.dataclass(frozen=True, slots=True)
class BoundedRule:
  """How an op carries arrays whose sizes depend on data, under `jit`.

  Attributes:
    function: maps a `BoundedCall` and the node's flat inputs, some of them `BoundedArray`s, to its flat outputs.
    makes: whether the result also has a bounded size if certain inputs are traced. The function is then also called
      if the ordinary lowering raises `StaticInputError`.
    has_max_size: whether the option `max_sizes` can bound the result.
  """

  function: Callable[..., Sequence[Any]]
  makes: bool = False
  has_max_size: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class _Registration:
  function: Callable[..., Any]
  ignores: frozenset[str]
  symbolic: bool = False
  data_inputs: frozenset[str] = frozenset()
  compared_inputs: frozenset[str] = frozenset()
  known_inputs: frozenset[str] = frozenset()


# The packages that contain lowerings; each lists its modules in LOWERINGS.
_ROOMS = (
  "array",
  "control_flow",
  "image",
  "int64_pairs",
  "linalg",
  "lists",
  "math",
  "nn",
  "optimizers",
  "quantization",
  "random",
  "signal",
  "sparse",
  "state",
  "tf2xla",
)

_REGISTRATIONS: dict[str, _Registration] = {}
# Lowerings that accept 64-bit integers as `int64_pairs.Int64Pair`.
_PAIR_REGISTRATIONS: dict[str, _Registration] = {}
# Rules for arrays of bounded size that were registered with a lowering. The built-in ones are in the room `bounded`.
_BOUNDED_RULES: dict[str, BoundedRule | Literal["elementwise"]] = {}
_Function = TypeVar("_Function", bound=Callable[..., Any])


def register(
  *op_names: str,
  ignores: Iterable[str] = (),
  override: bool = False,
  int64_pairs: Literal["refuse", "accept", "only"] = "refuse",
  data_inputs: Iterable[str] = (),
  compared_inputs: Iterable[str] = (),
  known_inputs: Iterable[str] = (),
  symbolic: bool = False,
  bounded: BoundedRule | Literal["elementwise"] | None = None,
) -> Callable[[_Function], _Function]:
  """Returns a decorator that registers a Python function as the lowering of TensorFlow ops.

  Args:
    *op_names: TensorFlow's op names; all share the function.
    ignores: attributes that the function does not need. An attribute that is neither a keyword-only parameter nor
      listed here is an error when a graph uses it. Attributes whose name starts with an underscore are always ignored.
    override: replace an existing lowering, including the one for pairs.
    int64_pairs: how the function treats 64-bit integers that are passed as `Int64Pair`, because `jax_enable_x64` is
      off. "refuse": the kernel raises, unless the pairs are among `data_inputs` or the op's traits say that it reads
      shapes alone. "accept": the function handles pairs like any other input. "only": the function is used in addition
      to the op's ordinary lowering, for nodes that receive pairs.
    data_inputs: names of the inputs whose elements the function only rearranges; all other inputs are positions and
      shapes. If these inputs are pairs, the function runs twice, on the low and on the high halves. If they are
      strings, it runs on numbers in their place; 0 is the empty string.
    compared_inputs: names of the inputs whose elements the function rearranges or compares. If they are strings, it
      runs on numbers in their place, which compare as the strings do.
    known_inputs: names of the inputs that the function reads in NumPy if they are known, so that 64-bit integers beyond
      32 bits are exact, as in `x[0:2**63 - 1]`.
    symbolic: whether the function computes on symbolic dimensions. If so, and all inputs are known, shape vectors with
      symbolic dimensions are passed as numpy arrays of dtype object, so that results may stay known; otherwise they are
      passed as traced arrays. A function with a `Context` parameter always gets numpy arrays.
    bounded: how the op carries arrays whose sizes depend on data under `jit` (`BoundedArray`); "elementwise" for an op
      with one output, whose shape is that of its inputs broadcast together. Without a rule such an array raises
      `StaticInputError`. An op whose lowering is replaced keeps its rule unless another one is given.

  Returns:
    The decorator. It returns the function unchanged, so lowerings can be called and tested as ordinary functions.

  Raises:
    RegistrationError: an op already has a lowering, or the signature is not that of a lowering.

  Example:
    >>> import jax.numpy as jnp
    >>> @register("MyCompanyScale", ignores=("T",))
    ... def scale(x, *, factor: float):
    ...   return x * factor
    >>> "MyCompanyScale" in supported_ops()
    True

    An op that sums over an axis of a size that depends on data puts 0 in place of the padding first:

    >>> def masked(call, inputs):
    ...   return [call.marked(call.run_one(call.filled(inputs[0], 0)), *inputs)]
    >>> @register("MyCompanyTotal", ignores=("T",), bounded=BoundedRule(masked))
    ... def total(x):
    ...   return jnp.sum(x)
  """

  def decorate(function: _Function) -> _Function:
    if is_builtin(function) and "<locals>" in function.__qualname__:
      # Made by a factory; a printed kernel shows the name.
      function.__name__ = function.__qualname__ = op_names[0]
    registration = _Registration(
      function,
      frozenset(ignores),
      symbolic,
      frozenset(data_inputs),
      frozenset(compared_inputs),
      frozenset(known_inputs),
    )
    if not is_builtin(function):
      # Load the built-in lowerings of these ops first, so that they cannot replace a user's override. A built-in module
      # may be imported alone, and loading others from there would be circular.
      for op in op_names:
        _load_lowerings_of(op)
      # Validate user signatures now. Built-ins are parsed lazily, because parsing all of them is slow.
      _read_signature(registration)
    accepts_pairs = int64_pairs in ("accept", "only")
    tables = [*([_REGISTRATIONS] if int64_pairs != "only" else []), *([_PAIR_REGISTRATIONS] if accepts_pairs else [])]
    for op in op_names:
      if op in tables[0] and not override:
        raise RegistrationError(
          f"register({op!r}): {_describe(tables[0][op].function)} lowers this op already; "
          f"pass override=True to replace it by {_describe(function)}."
        )
    for table in tables:
      table.update(dict.fromkeys(op_names, registration))
    if override and not accepts_pairs:  # otherwise the replaced function would still receive pairs
      for op in op_names:
        _PAIR_REGISTRATIONS.pop(op, None)
    if bounded is not None:
      _BOUNDED_RULES.update(dict.fromkeys(op_names, bounded))
    return function

  return decorate


def lowering(op: str, *, int64_pairs: bool = False) -> Lowering | None:
  """Returns the lowering registered for `op`, or None.

  Args:
    op: TensorFlow's op name.
    int64_pairs: return the lowering that accepts 64-bit integers as `Int64Pair`.

  Example:
    >>> [parameter.name for parameter in lowering("Cumsum").inputs]
    ['x', 'axis']
  """
  _load_lowerings_of(op)
  registration = (_PAIR_REGISTRATIONS if int64_pairs else _REGISTRATIONS).get(op)
  return None if registration is None else _read_signature(registration)


def read_lowering(function: Callable[..., Any], *, ignores: Iterable[str] = ()) -> Lowering:
  """Returns a function as a lowering without registering it, for registries of other implementations of ops.

  Args:
    function: a function whose signature is that of a lowering; see the docstring of this module.
    ignores: attributes that the function does not need.

  Raises:
    RegistrationError: the signature is not that of a lowering.

  Example:
    >>> def scale(x, *, factor: float):
    ...   return x * factor
    >>> read_lowering(scale, ignores=("T",)).attrs
    {'factor': <class 'float'>}
  """
  return _read_signature(_Registration(function, frozenset(ignores)))


def registered_bounded_rules() -> Mapping[str, BoundedRule | Literal["elementwise"]]:
  """Returns the rules that were passed to `register`, by op."""
  return _BOUNDED_RULES


def supported_ops() -> frozenset[str]:
  """Returns the names of all TensorFlow ops that have a lowering.

  Example:
    >>> {"Conv2D", "MatMul", "Cumsum"} <= supported_ops()
    True
  """
  _load_lowerings()
  return frozenset(_REGISTRATIONS)


def is_builtin(function: Callable[..., Any]) -> bool:
  """Returns whether a lowering belongs to this package, rather than to a user."""
  module = function.__module__
  return module.startswith("graftax.ops_jax.") and not module.endswith("_test")


def _load_lowerings_of(op: str) -> None:
  # Importing all rooms takes as long as importing the rest of graftax, and a program has few of the ops.
  if op in _modules_by_op():
    _import_modules_of(op)
  if op not in _REGISTRATIONS and op not in _PAIR_REGISTRATIONS:
    # The table may be older than the op.
    _load_lowerings()


@functools.cache
def _modules_by_op() -> Mapping[str, Sequence[str]]:
  found: dict[str, list[str]] = {}
  for module, ops in LOWERING_MODULES.items():
    for op in ops.split():
      found.setdefault(op, []).append(module)
  return found


# Imports are cached when they are done, not before: other threads wait for them, and an import that was interrupted is
# tried again.
@functools.cache
def _import_modules_of(op: str) -> None:
  for module in _modules_by_op()[op]:
    importlib.import_module(f"graftax.ops_jax.{module}")


@functools.cache
def _load_lowerings() -> None:
  for room in _ROOMS:
    package = f"graftax.ops_jax.{room}"
    for module in importlib.import_module(package).LOWERINGS:
      importlib.import_module(f"{package}.{module}")


@functools.cache
def _read_signature(registration: _Registration) -> Lowering:
  function = registration.function
  hints = typing.get_type_hints(function, include_extras=True)
  inputs: list[InputParameter] = []
  attrs: dict[str, Any] = {}
  needs_context = needs_facts = needs_budget = False
  for position, parameter in enumerate(inspect.signature(function).parameters.values()):
    hint = hints.get(parameter.name)
    if hint is IntegerFacts:
      needs_facts = True
    elif hint is Budget:
      needs_budget = True
    elif parameter.kind is parameter.KEYWORD_ONLY:
      if hint is None:
        raise RegistrationError(f"{_describe(function)}: attribute {parameter.name!r} has no type annotation.")
      if list in (hint, typing.get_origin(hint)):
        raise RegistrationError(
          f"{_describe(function)}: attribute {parameter.name!r} is annotated as {hint}; attributes with several "
          "elements are tuples. Write tuple[int, ...], for example."
        )
      attrs[parameter.name] = hint
    elif hint is Context:
      if position:
        raise RegistrationError(f"{_describe(function)}: expected the Context as the first parameter.")
      needs_context = True
    elif parameter.kind is parameter.VAR_KEYWORD and typing.get_origin(hint) is typing.Unpack:
      attrs.update(typing.get_type_hints(typing.get_args(hint)[0]))
    elif parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
      marks = getattr(hint, "__metadata__", ())
      name = parameter.name.rstrip("_")
      inputs.append(InputParameter(name, _static_type(hint), UNCONVERTED_MARKER in marks, SIZE_MARKER in marks))
    else:
      raise RegistrationError(f"{_describe(function)}: parameter {parameter} is neither an input nor an attribute.")
  declared = {
    "data_inputs": registration.data_inputs,
    "compared_inputs": registration.compared_inputs,
    "known_inputs": registration.known_inputs,
  }
  for what, names in declared.items():
    unknown = names - {parameter.name for parameter in inputs}
    if unknown:
      raise RegistrationError(
        f"{_describe(function)}: {what}={sorted(unknown)!r} are not among the inputs {[p.name for p in inputs]!r}."
      )
  return Lowering(
    function,
    tuple(inputs),
    attrs,
    registration.ignores,
    needs_context,
    needs_facts=needs_facts,
    needs_budget=needs_budget,
    symbolic=registration.symbolic or needs_context,
    data_inputs=registration.data_inputs,
    compared_inputs=registration.compared_inputs,
    known_inputs=registration.known_inputs,
  )


def _static_type(hint: Any) -> Any | None:
  if STATIC_MARKER in getattr(hint, "__metadata__", ()):
    return hint.__origin__
  return None


def _describe(function: Callable[..., Any]) -> str:
  return f"{function.__module__}.{function.__qualname__}"
