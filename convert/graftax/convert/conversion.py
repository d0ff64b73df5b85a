"""Converts a `Program` to a JAX function and its parameters."""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.convert.annotated import AnnotatedFunction
from graftax.convert.errors import InputError, ParameterError
from graftax.convert.evaluation.evaluate import Evaluator
from graftax.convert.evaluation.state import State
from graftax.convert.gc_pause import without_garbage_collection
from graftax.convert.generator_variables import generator_variables
from graftax.convert.options import ConvertOptions, current_options
from graftax.convert.planning.plan import Plan, Planner
from graftax.convert.planning.size_bounds import check_max_sizes
from graftax.convert.program import Program
from graftax.convert.recursion import recursion_as_limit
from graftax.convert.shown_names import shown
from graftax.convert.structures.nested import flatten_call
from graftax.convert.support_check import check_program
from graftax.convert.trace_state import is_outside_of_transformations
from graftax.convert.variable import PlacedVariable, Variable, VariableSpec
from graftax.graphdef_ir import Budget, FunctionLibrary, follow_calls, referenced_functions
from graftax.ops_jax import (
  BoundedArray,
  IntegerFacts,
  MissingBoundError,
  Value,
  argument_bytes,
  as_int64_pair,
  fits_jax_dtype,
  materialize,
  to_jax_exactly,
)

__all__ = ["conversion_of", "convert_program", "with_program"]

# How many variables a message describes.
_MOST_SHAPES = 5

# An error names at most this many nodes without a bound. To find the next one, the bound of the last is assumed.
_MOST_BOUNDS = 20
_SOME_BOUND = 8

# These options check calls, so they are read at each call, as in TF2JAX. The conversion fixes all others.
_CALL_TIME_OPTIONS = ("strict_shape_check", "strict_dtype_check", "xlacallmodule_strict_checks")


def convert_program(
  program: Program, options: ConvertOptions | None = None
) -> tuple[AnnotatedFunction, dict[str, Variable]]:
  """Returns a JAX function and its parameters.

  Args:
    program: the program to convert.
    options: the options of this conversion and of all calls of its result. By default they are the current options
      (`update_config`, `override_config`), and those for input checks are read again at each call.

  Returns:
    `(fn, params)` with `fn(params, *args, rng=None, **kwargs) -> (outputs, new_params)`. If the function has an
    argument named `rng`, the PRNG key is passed as `rng_`. `fn` can be pickled, and unpickled without TensorFlow.

  Raises:
    UnsupportedOpError: some ops have no lowering, or JAX cannot hold some captures; the message lists all of them.
    ControlFlowError: the TF1 control flow in the program does not form conditionals and loops.
    ConversionError: a name in the option `max_sizes` is not that of a node or op that can use a bound.

  Example:
    >>> from graftax.convert import jax_program
    >>> program = jax_program(lambda params, x: x * params["w"], [2.0], params={"w": 3.0})
    >>> fn, params = convert_program(program)
    >>> float(fn(params, 2.0)[0])
    6.0
  """
  call = _plan(program, options or current_options(), read_checks=options is None)
  return _annotate(call), _parameters(program, call.generators)


def conversion_of(fn: object) -> tuple[Program, ConvertOptions] | None:
  """Returns the program, with zeros for the variables, and the options of a converted function; None for others."""
  call = fn.fn if isinstance(fn, AnnotatedFunction) else None
  return (call.program, call.options) if isinstance(call, _Call) else None


def with_program(fn: AnnotatedFunction, program: Program) -> tuple[AnnotatedFunction, dict[str, Any]]:
  """Returns what `convert_program` returns for `program`, with the options of a converted function."""
  assert isinstance(fn.fn, _Call), "internal: not a converted function"
  call = _plan(program, fn.fn.options, fn.fn.read_checks)
  return _annotate(call), _parameters(program, call.generators)


def _parameters(program: Program, generators: frozenset[str]) -> dict[str, Any]:
  """Returns the variables' values; if `jax_enable_x64` is off, `Int64Pair` for generators and integers beyond 32 bits.

  `jit` would cut such integers to 32 bits if they were arguments in NumPy.
  """
  values = {
    name: variable.value if isinstance(variable, PlacedVariable) else variable
    for name, variable in program.variables.items()
  }
  if jax.config.jax_enable_x64:
    return values
  return {
    name: as_int64_pair(value) if name in generators or not fits_jax_dtype(value) else value
    for name, value in values.items()
  }


def _plan(program: Program, options: ConvertOptions, read_checks: bool) -> "_Call":
  with recursion_as_limit(program.name), without_garbage_collection():
    return _planned(program, options, read_checks)


def _planned(program: Program, options: ConvertOptions, read_checks: bool) -> "_Call":
  found = check_program(
    program,
    keep_asserts=options.enable_checkify_for_asserts,
    fallback=options.fallback,
    limits=options.limits,
  )
  program = found.program
  check_max_sizes(program, options.max_sizes)
  planner = Planner(program.library, program.signatures, options, program.gradients)
  # The caller gets the values of the variables, so the function must not keep them alive.
  kept = dataclasses.replace(program, variables={name: _of_shape(v) for name, v in program.variables.items()})
  plan = planner.plan_root(program.function)
  constants = [value for value in (*plan.constants.values(), *program.captures) if isinstance(value, np.ndarray)]
  num_bytes = argument_bytes(constants)
  return _Call(kept, planner, plan, options, read_checks, generator_variables(program), found.num_nodes, num_bytes)


def _annotate(call: "_Call") -> AnnotatedFunction:
  program = call.program
  variables = {name: VariableSpec(v.name, v.shape, v.dtype, v.trainable) for name, v in program.variables.items()}
  return AnnotatedFunction(
    call, program.inputs, program.outputs, program.name, program.doc, has_params=True, variables=variables
  )


# jax.jit keeps a weak reference to what it compiles.
@dataclasses.dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class _Call:
  """A planned program as a Python callable. Only the program is pickled; unpickling plans it again."""

  program: Program
  planner: Planner
  plan: Plan
  options: ConvertOptions
  read_checks: bool
  generators: frozenset[str]
  num_nodes: int
  constant_bytes: int

  def __call__(self, params: Mapping[str, Value], /, *args: Any, **kwargs: Any) -> tuple[Any, dict[str, Value]]:
    _check_parameters(self.program, params)
    options = self._options_now()
    rng = kwargs.pop(self.program.inputs.free_name("rng"), None)
    flat = flatten_call(
      self.program.inputs,
      args,
      kwargs,
      function=self.program.name,
      strict_shape_check=options.strict_shape_check,
      strict_dtype_check=options.strict_dtype_check,
    )
    results, new_params = self._run(params, flat, rng, options)
    return self.program.outputs.pack(results), new_params

  def run(self, params: Mapping[str, Value], flat: Sequence[Value], rng: Any) -> tuple[list[Value], dict[str, Value]]:
    """Returns flat results for flat inputs, which are passed on as they are: numpy arrays are known while tracing.

    Raises:
      ParameterError: `params` does not have the names of the program's variables.
    """
    _check_parameters(self.program, params)
    return self._run(params, flat, rng, self._options_now())

  def _run(
    self, params: Mapping[str, Value], flat: Sequence[Value], rng: Any, options: ConvertOptions
  ) -> tuple[list[Value], dict[str, Value]]:
    state = State(params, self.generators, differentiates_assignments=options.differentiate_assignments)
    key = None if rng is None else _as_key(rng, self.program.name)
    leaves = jax.tree.leaves((flat, dict(params)))
    is_traced = any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)
    runs_at_once = not is_traced and is_outside_of_transformations()
    if options.max_sizes and runs_at_once:
      # Sizes are known. A loop that needs a bound runs step by step instead, so nothing can exceed one.
      options = dataclasses.replace(options, max_sizes=None)
    budget = Budget(
      options.limits,
      num_nodes=self.num_nodes,
      argument_bytes=argument_bytes(leaves) + self.constant_bytes,
      is_traced=not runs_at_once,
    )
    evaluator = Evaluator(self.planner, options, state, key, budget=budget)
    if not runs_at_once:
      _note_ragged_rows(self.program, flat, evaluator.facts)
    with without_garbage_collection() if is_traced else contextlib.nullcontext():
      try:
        with recursion_as_limit(self.program.name):
          results = evaluator.run(self.plan, [*flat, *self.program.captures])
      except Exception as error:
        _blame_parameter_shapes(self.program, params, error)
        if isinstance(error, MissingBoundError):
          others = self._others_without_bound(error, params, flat, key, options, budget)
          if others:
            raise _with_other_bounds(error, others) from error
        raise
    return [_as_output(value) for value in results], state.results()

  def _others_without_bound(
    self,
    error: MissingBoundError,
    params: Mapping[str, Value],
    flat: Sequence[Value],
    key: jax.Array | None,
    options: ConvertOptions,
    budget: Budget,
  ) -> list[str]:
    """Returns the nodes after that of `error` that need a bound, too.

    To find them, the evaluation is repeated with an assumed bound. If something does not fit that bound, the search
    ends, so the list may be incomplete.
    """
    found: list[str] = []
    sizes = dict(options.max_sizes or {})
    while len(found) < _MOST_BOUNDS and error.node not in sizes:
      sizes[error.node] = _SOME_BOUND
      state = State(params, self.generators, differentiates_assignments=options.differentiate_assignments)
      evaluator = Evaluator(self.planner, dataclasses.replace(options, max_sizes=sizes), state, key, budget=budget)
      _note_ragged_rows(self.program, flat, evaluator.facts)
      try:
        evaluator.run(self.plan, [*flat, *self.program.captures])
      except MissingBoundError as next_error:
        error = next_error
        found.append(error.node)
      except Exception:
        break
      else:
        break
    return list(dict.fromkeys(found))

  def __reduce__(self) -> tuple[Any, ...]:
    return _plan, (_without_unused(self.program, self.planner), self.options, self.read_checks)

  def __deepcopy__(self, memo: Any) -> "_Call":
    return self

  def _options_now(self) -> ConvertOptions:
    if not self.read_checks:
      return self.options
    now = current_options()
    return dataclasses.replace(self.options, **{name: getattr(now, name) for name in _CALL_TIME_OPTIONS})


def _with_other_bounds(error: MissingBoundError, others: Sequence[str]) -> MissingBoundError:
  """Returns the error with its notes and with the names of all nodes that need a bound."""
  all_sizes = ", ".join(f"{name!r}: n" for name in (error.node, *others))
  more = " There may be more." if len(others) == _MOST_BOUNDS else ""
  full = type(error)(f"{error} Other nodes need a bound, too: max_sizes={{{all_sizes}}}.{more}", error.node)
  for note in getattr(error, "__notes__", ()):
    full.add_note(note)
  return full


def _note_ragged_rows(program: Program, flat: Sequence[Value], facts: IntegerFacts) -> None:
  """Adds to the facts that row splits of ragged arguments are between 0 and the number of what they divide.

  The caller may pass other splits. Results whose rows exceed the range are marked, as with a bound from `max_sizes`.
  """
  for splits, divided, extra in program.inputs.ragged_splits:
    size = np.shape(flat[divided])[0]
    if isinstance(size, int) and isinstance(flat[splits], jax.Array):
      facts.note_range(flat[splits], 0, size - extra, is_certain=False)


def _of_shape(variable: Any) -> Variable:
  """Returns zeros of the shape and dtype of a variable, or of a plain array, that share one element."""
  zeros = np.broadcast_to(np.zeros((), variable.dtype), variable.shape)
  return Variable(zeros, getattr(variable, "name", ""), getattr(variable, "trainable", True))


def _without_unused(program: Program, planner: Planner) -> Program:
  """Returns the program with only the functions that it can reach, since a library may hold thousands."""
  library = program.library
  roots = [gradient.function for gradient in planner.gradients.values()]
  roots += (name for node in program.function.nodes for name in referenced_functions(node, library))

  def callees(name: str) -> Iterator[str]:
    return (called for node in library[name].nodes for called in referenced_functions(node, library))

  reached = {name: library[name] for name in follow_calls(roots, callees)}
  return dataclasses.replace(program, library=FunctionLibrary(reached))


def _check_parameters(program: Program, params: Mapping[str, Value]) -> None:
  if not isinstance(params, Mapping):
    raise ParameterError(
      f"{program.name}: the first argument must be a dict of parameters by variable name; got {type(params).__name__}."
    )
  missing = [name for name in program.variables if name not in params]
  unknown = [name for name in params if name not in program.variables]
  wrong = [
    f"Some parameters are {what}, {shown(names)}."
    for what, names in (("missing", missing), ("unknown", unknown))
    if names
  ]
  if wrong:
    raise ParameterError(f"{program.name}: {' '.join(wrong)} Expected {shown(program.variables)}.")


def _blame_parameter_shapes(program: Program, params: Mapping[str, Value], error: Exception) -> None:
  """Raises a ParameterError if some parameters do not have the shapes of the program's variables.

  Shapes are compared only after an error, because a program may assign values of other shapes to a variable.
  """
  shapes = [(name, np.shape(params[name]), variable.shape) for name, variable in program.variables.items()]
  wrong = [
    f"{name!r} is {list(seen)}, expected {list(expected)}" for name, seen, expected in shapes if seen != expected
  ]
  if wrong:
    more = f"; and {len(wrong) - _MOST_SHAPES} more" if len(wrong) > _MOST_SHAPES else ""
    raise ParameterError(
      f"{program.name}: shapes of parameters do not fit: {'; '.join(wrong[:_MOST_SHAPES])}{more}. With them "
      f"the program fails: {error}"
    ) from error


def _as_key(rng: Any, function: str) -> jax.Array:
  """Returns `rng` as an array; it may be a typed PRNG key or raw key data."""
  key = jnp.asarray(rng)
  is_key = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
  if (is_key and not key.ndim) or (key.dtype == np.uint32 and key.ndim == 1):
    return key
  raise InputError(
    f"{function}: rng is {key.dtype}{list(key.shape)}; expected one PRNG key, such as jax.random.key(0)."
  )


def _as_output(value: Value) -> Value:
  if isinstance(value, BoundedArray):
    is_traced = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(value))
    return value if is_traced else value.cut()
  if isinstance(value, np.ndarray) and value.dtype == object:
    value = materialize(value)
  return to_jax_exactly(value) if isinstance(value, (np.ndarray, np.generic)) and value.dtype != object else value
