"""A TensorFlow function as a JAX function: traced by TensorFlow, read as a program, converted."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from graftax.convert._tensorflow import TensorFlow, outside_of_graphs
from graftax.convert.conversion import convert_program
from graftax.convert.errors import ConversionError, MissingInputError, ParameterError, VariableWriteError
from graftax.convert.jax2tf.tf_calls.flat_function import FlatFunction
from graftax.convert.jax2tf.tf_calls.known_integers import KnownIntegers
from graftax.convert.jax2tf.tf_calls.mutable_tables import refuse_mutable_tables
from graftax.convert.jax2tf.tf_calls.variable_reads import VariableReads, variable_reads
from graftax.convert.live.function import program_with_live_variables
from graftax.convert.live.variables import LiveVariable
from graftax.convert.options import current_options
from graftax.convert.planning.control_flow_v1 import with_functional_control_flow
from graftax.convert.planning.effects import EffectAnalysis
from graftax.convert.program import Program
from graftax.convert.shown_names import shown
from graftax.ops_jax import Array, Int64Pair, ResourceHandle, StaticInputError, Value, as_int64_pair

__all__ = ["ConvertedCall", "convert_call"]


@dataclasses.dataclass(frozen=True, eq=False)
class ConvertedCall:
  """A TensorFlow function for arguments of one structure, and of the same shapes and dtypes.

  Attributes:
    flat: the function as TensorFlow traced it.
    function: takes values of variables by name and flat arguments, and returns flat results and new values by name.
    variables: the variables by name; None for those that nodes of its graph create.
    initial: the values of the variables when the function was converted; zeros of their shapes and dtypes, which share
      one element, for those that can be read again.
    written: the names of variables that it may write.
  """

  flat: FlatFunction
  function: Callable[..., Any]
  variables: Mapping[str, LiveVariable | None]
  initial: Mapping[str, Value]
  written: tuple[str, ...]

  def results(self, arrays: Sequence[Array]) -> list[Array]:
    """Returns the flat results, computed with the values that the variables have when the code runs.

    Raises:
      VariableWriteError: the function writes variables.
      MissingInputError: the function draws random numbers.
    """
    self._refuse_writes(self.written)
    values = dict(zip(self.initial, self._reads.values(), strict=True))
    found: list[Array] = self._with_known_integers(self._compiled_results, values, arrays)
    return found

  def results_and_variables(
    self, values: Mapping[str, Value], arrays: Sequence[Array]
  ) -> tuple[list[Value], dict[str, Value]]:
    """Returns the flat results and the variables after the call, for explicit values of the variables.

    Raises:
      ParameterError: the values do not have the names of the variables.
      MissingInputError: the function draws random numbers, and the values have no key.
    """
    self._check_names(values)
    results, written = self._with_known_integers(self._compiled_call, dict(values), arrays)
    return results, {**values, **written}

  @functools.cached_property
  def key_name(self) -> str:
    """The name of the PRNG key among explicit variables: "rng", if no variable has this name."""
    name = "rng"
    while name in self.initial:
      name += "_"
    return name

  def _check_names(self, values: Mapping[str, Value]) -> None:
    name = self.flat.name
    if not isinstance(values, Mapping):
      raise ParameterError(
        f"call_tf: {name}: the first argument must be a dict of variables by name; got a {type(values).__name__}."
      )
    missing = [name for name in self.initial if name not in values]
    unknown = [name for name in values if name not in self.initial and name != self.key_name]
    if missing or unknown:
      raise ParameterError(
        f"call_tf: {name}: variables do not fit; missing {shown(missing)}, unknown {shown(unknown)}; expected "
        f"{shown(self.initial)}, as the method `variables` returns them."
      )

  def current_values(self, tf: TensorFlow, arrays: Sequence[Array]) -> dict[str, Value]:
    """Returns the values that the variables have now, and a new PRNG key if a call with these arguments needs one."""
    found = dict(self.initial)
    with tf.init_scope():
      for name, variable in self.variables.items():
        if variable is not None:
          value = variable.tensor(tf).numpy()
          found[name] = as_int64_pair(value) if isinstance(found[name], Int64Pair) else np.array(value)
      if self._draws(found, arrays):
        # From TensorFlow, so that tf.random.set_seed decides it; raw words, so that it can be exported and saved.
        found[self.key_name] = jax.random.PRNGKey(int(tf.random.uniform([], 0, tf.int32.max, tf.int32)))
    return found

  def _draws(self, values: Mapping[str, Value], arrays: Sequence[Array]) -> bool:
    """Returns whether the function draws random numbers that are not those of a generator in a variable."""
    try:
      jax.eval_shape(lambda: self._with_known_integers(self._run, values, arrays))
    except MissingInputError:
      return True
    return False

  @functools.cached_property
  def _reads(self) -> VariableReads:
    missing = [name for name, variable in self.variables.items() if variable is None]
    if missing:
      raise ConversionError(
        f"call_tf: {self.flat.name}: nodes of its graph create the variables {shown(missing)}, so that compiled "
        f"code cannot read them again; use call_tf(f, variables='explicit')."
      )
    live = [variable for variable in self.variables.values() if variable is not None]
    return variable_reads(self.flat.name, live, list(self.initial.values()))

  @functools.cached_property
  def _compiled_results(self) -> Any:
    def call(values: Mapping[str, Value], arrays: Sequence[Array], known: KnownIntegers) -> list[Value]:
      results, written = self._run(values, arrays, known)
      self._refuse_writes(written)
      return results

    return jax.jit(call, static_argnums=2, inline=True)

  @functools.cached_property
  def _compiled_call(self) -> Any:
    return jax.jit(self._run, static_argnums=2, inline=True)

  def _with_known_integers(self, call: Any, values: Mapping[str, Value], arrays: Sequence[Array]) -> Any:
    """Returns the result of a compiled function; integers that decide shapes are known if the caller knows them.

    The function is compiled for the values of such integers, so they are known only if it fails otherwise.
    """
    try:
      return call(values, list(arrays), KnownIntegers())
    except StaticInputError as e:
      known = KnownIntegers.among(arrays)
      if not known.arrays:
        raise self._with_advice(e) from e
    try:
      return call(values, list(arrays), known)
    except StaticInputError as e:
      raise self._with_advice(e) from e

  def _with_advice(self, error: StaticInputError) -> StaticInputError:
    return StaticInputError(
      f"call_tf: {self.flat.name}: {error}\nIn compiled code shapes cannot depend on the values of arrays. Pass "
      f"integers that decide shapes as Python numbers, as NumPy arrays or with functools.partial. If the size of a "
      f"result depends on data, return arrays of a fixed size, such as tf.where(mask, x, 0.0) in place of "
      f"tf.boolean_mask(x, mask)."
    )

  def _run(
    self, values: Mapping[str, Value], arrays: Sequence[Array], known: KnownIntegers
  ) -> tuple[list[Value], dict[str, Value]]:
    """Returns the flat results, and the variables that were written, with the next key if there is one."""
    variables = {name: value for name, value in values.items() if name in self.initial}
    next_key, keys = {}, {}
    if self.key_name in values:
      next_key[self.key_name], keys["rng"] = jax.random.split(values[self.key_name])
    try:
      results, new_values = self.function(variables, *known.replace(arrays), **keys)
    except MissingInputError as e:
      raise MissingInputError(
        f"call_tf: {self.flat.name} draws random numbers, whose state JAX's transformations cannot keep. Make it an "
        f"argument and a result, a PRNG key named {self.key_name!r}:\n{self._explicit_form}\nOr use "
        f"tf.random.stateless_* functions with a seed that is an argument."
      ) from e
    written = {name: value for name, value in new_values.items() if value is not variables[name]}
    return results, {**written, **next_key}

  def _refuse_writes(self, names: Iterable[str]) -> None:
    names = list(names)
    if names:
      raise VariableWriteError(
        f"call_tf: {self.flat.name} writes the variables {names!r}, which JAX's transformations cannot do. Make them "
        f"arguments and results:\n{self._explicit_form}"
      )

  @property
  def _explicit_form(self) -> str:
    function = self.flat.name if self.flat.name.isidentifier() else "tf_function"
    return (
      f"  f = call_tf({function}, variables='explicit')\n"
      f"  variables = f.variables(*args)\n"
      f"  result, variables = jax.jit(f)(variables, *args)"
    )


def convert_call(tf: TensorFlow, flat: FlatFunction, specs: Sequence[jax.ShapeDtypeStruct]) -> ConvertedCall:
  """Returns a TensorFlow function as a JAX function.

  Args:
    tf: TensorFlow.
    flat: the function.
    specs: a `tf.TensorSpec` for each flat argument.

  Raises:
    UnsupportedOpError: some ops have no lowering, and TensorFlow does not compile them.
    ConversionError: an argument, result or capture has no JAX counterpart.
  """
  with outside_of_graphs(tf):
    try:
      concrete = flat.traced(list(specs))
    except Exception as e:  # any error of the user's function
      e.add_note(
        f"call_tf: while TensorFlow traced {flat.name}. In JAX's transformations it is traced like a tf.function, "
        f"so its tensors have no values; eager calls have them."
      )
      raise
    program, live = program_with_live_variables(concrete)
    refuse_mutable_tables(tf, flat.name, program.captures, concrete.captured_inputs)
    written = _written_variables(program)
    # TensorFlow is here in any case, so it may compile what has no lowering.
    function, initial = convert_program(program, dataclasses.replace(current_options(), fallback="tensorflow"))
  kept = {name: _of_shape(value) if name in live else value for name, value in initial.items()}
  return ConvertedCall(flat, function, {name: live.get(name) for name in initial}, kept, written)


def _of_shape(value: Value) -> Value:
  is_array = isinstance(value, np.ndarray)
  return np.broadcast_to(np.zeros((), value.dtype), value.shape) if is_array else value


def _written_variables(program: Program) -> tuple[str, ...]:
  program = with_functional_control_flow(program, current_options().limits)
  positions = EffectAnalysis(program.library, program.signatures).parameters_written_by(program.function)
  start = len(program.function.parameters) - len(program.captures)
  captured = [program.captures[i - start] for i in sorted(positions) if i >= start]
  return tuple(dict.fromkeys(c.name for c in captured if isinstance(c, ResourceHandle) and c.name in program.variables))
