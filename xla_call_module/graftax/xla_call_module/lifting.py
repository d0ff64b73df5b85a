"""`lift`: converts a module to an ordinary JAX function."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from graftax.xla_call_module import (
  arguments,
  costs,
  errors,
  evaluate,
  gradients,
  platforms,
  registry,
  values,
  without_x64,
)
from graftax.xla_call_module import lowerings as lowerings  # registers the built-in lowerings
from graftax.xla_call_module.budget import Limits
from graftax.xla_call_module.communication import PER_DEVICE
from graftax.xla_call_module.context import (
  Context,
  GradientOption,
  LoopsOption,
  Options,
  Record,
  X64Option,
  check_choices,
  checked_limits,
  checked_names,
)
from graftax.xla_call_module.lax_extras.int64_pairs import Int64Pair
from graftax.xla_call_module.module import Module, check_is_module
from graftax.xla_call_module.patterns import old_lapack, templates
from graftax.xla_call_module.patterns.largest import with_largest
from graftax.xla_call_module.patterns.manual_calls import with_manual_computations
from graftax.xla_call_module.patterns.masked_infinity import with_masked_infinities
from graftax.xla_call_module.patterns.old_gpu_solvers import with_typed_solvers
from graftax.xla_call_module.patterns.platform_cases import for_platform
from graftax.xla_call_module.patterns.renaming import without_scalar_constraints
from graftax.xla_call_module.patterns.softmax import with_softmax
from graftax.xla_call_module.patterns.tuple_results import with_several_results
from graftax.xla_call_module.survey import survey

__all__ = ["Lifted", "lift", "lowered_ops"]


class Lifted:
  """A lifted module: a function from flat arrays to a tuple of arrays that supports all JAX transformations.

  Attributes:
    module: the module that was lifted.
    records: operations that were dropped or replaced while tracing: sharding annotations without a mesh, undecided
      shape assertions, custom calls that run through FFI. Empty before the first call.
  """

  def __init__(self, module: Module, options: Options, gradient: str):
    self.module: Module = module
    self.options: Options = options
    found = survey(module.ir)
    self._new_budget = costs.check(found, module.ir, options.limits)
    self._contexts: dict[tuple[bool, int | None], Context] = {}
    self._records: dict[Any, Record] = {}
    self._uses_64_bits = without_x64.uses_64_bits(module.ir, (kind for kind, _ in found.types))
    modern = with_typed_solvers(old_lapack.modernized(with_several_results(module.ir)))
    modern = with_manual_computations(modern)
    if PER_DEVICE in found.names:
      modern = without_scalar_constraints(modern)
    recovered = with_softmax(templates.recover(modern, found), found)
    self._ir = with_masked_infinities(with_largest(recovered, found), found)
    self._jitted = jax.jit(self._run)
    pullback = gradients.stored_pullback(module, gradient, lambda stored: Lifted(stored, options, "auto"))
    self._call = gradients.with_policy(self._jitted, module, pullback, gradient)
    self.__name__: str = module.ir.name or "lifted"

  def __repr__(self) -> str:
    return f"<lifted {self.__name__}: {self.module}>"

  @property
  def records(self) -> tuple[Record, ...]:
    return tuple(self._records.values())

  def __call__(self, *args: Any) -> tuple[jax.Array, ...]:
    return arguments.call_checked(self._call, self.module, args, lacks_x64=self._lacks_x64(), x64=self.options.x64)

  def _run(self, *args: Any) -> list[jax.Array]:
    """Computes the results without custom derivatives; called under `jax.jit`."""
    module, options = self.module, self.options
    if not module.has_platform_index:
      results = self._evaluate(None, *args)
    elif options.platform is not None:
      results = self._evaluate(module.platforms.index(options.platform), *args)
    else:
      branches = {name: _Fixed(self._evaluate, index) for index, name in enumerate(module.platforms)}
      # The default runs on platforms that the module does not name; plain ops are written from it.
      default = branches.get("cpu", _Fixed(self._evaluate, 0))
      results = lax.platform_dependent(*args, default=default, **branches)
    is_chosen = module.has_platform_index and options.platform is not None
    if options.check_platform and module.checks_platform and not is_chosen:
      results = platforms.checked(results, module.platforms)
    return results

  def _evaluate(self, platform_index: int | None, *args: Any) -> list[jax.Array]:
    context = self._context(platform_index).with_budget(self._new_budget())
    full = arguments.for_main(self.module, args, platform_index)
    results = evaluate.run_function(context, context.ir.main, full)
    return [_output(context, value) for value in results if value is not values.TOKEN]

  def _context(self, platform_index: int | None) -> Context:
    key = (self._lacks_x64(), platform_index)
    if key not in self._contexts:
      chosen = self._ir if platform_index is None else for_platform(self._ir, platform_index)
      self._contexts[key] = Context(chosen, self.options, platform_index, key[0], self._records)
    return self._contexts[key]

  def _lacks_x64(self) -> bool:
    """Returns whether the module has 64-bit values while 64-bit types are disabled in JAX."""
    return self._uses_64_bits and not jax.config.jax_enable_x64


class _Fixed:
  """`function(index, *args)` with a fixed index. It has a `__name__`, which JAX requires of a branch."""

  def __init__(self, function: Callable[..., Any], index: int):
    self._function, self._index = function, index
    self.__name__ = f"platform_{index}"

  def __call__(self, *args: Any) -> Any:
    return self._function(self._index, *args)


def _output(context: Context, value: object) -> jax.Array:
  if isinstance(value, (without_x64.BoundedInt64, Int64Pair)):
    raise errors.X64Error(
      f"a result of the module has type {value.dtype.name} and 64-bit types are disabled in JAX. Set"
      " jax_enable_x64, or lift with x64='enable'."
    )
  return jnp.asarray(values.materialize(value))


def _check_types(mesh: Any, platform: Any, callbacks: Mapping[str, Any], custom_calls: Any) -> None:
  """Raises TypeError if an option has a wrong type, which would otherwise be found late or never."""
  if not isinstance(mesh, (jax.sharding.Mesh, jax.sharding.AbstractMesh, type(None))):
    raise TypeError(f"mesh={mesh!r}; expected a jax.sharding.Mesh.")
  if not isinstance(platform, (str, type(None))):
    raise TypeError(f"platform={platform!r}; expected a name such as 'cpu'.")
  if not isinstance(custom_calls, (Mapping, type(None))):
    raise TypeError(f"custom_calls={custom_calls!r}; expected a dict from targets to functions.")
  named = {f"custom_calls[{target!r}]": function for target, function in (custom_calls or {}).items()}
  for name, function in {**callbacks, **named}.items():
    if function is not None and not callable(function):
      raise TypeError(f"{name}={function!r}; expected a function.")


def lift(
  module: Module,
  *,
  mesh: jax.sharding.Mesh | None = None,
  gradient: GradientOption = "auto",
  x64: X64Option = "error",
  check_platform: bool = True,
  check_shapes: bool | None = None,
  platform: str | None = None,
  loops: LoopsOption = "scan",
  call_tf_function: Callable[..., Sequence[Any]] | None = None,
  custom_calls: Mapping[str, Callable[..., Any]] | None = None,
  allow_custom_calls: Collection[str] = (),
  on_unsupported: Callable[..., Any] | None = None,
  limits: Limits | None = None,
) -> Lifted:
  """Returns the module as a function from flat arrays to a tuple of arrays, made of ordinary JAX operations.

  Args:
    module: the module to lift.
    mesh: mesh for sharding annotations, which become constraints; without a mesh they are dropped and recorded.
    gradient: the derivative for reverse mode. StableHLO does not represent `custom_jvp`, `custom_vjp` and
      `stop_gradient`, so the derivative of the lifted code can differ from the one that the author defined.
      "saved": the gradient function in the artifact; DerivativeError if it has none, and in forward mode.
      "primal": the derivative of the lifted code, in which functions such as softmax and relu have their own.
      "auto": like "saved" in reverse mode if the artifact has a gradient function, otherwise like "primal".
    x64: what to do with a 64-bit module while 64-bit types are disabled. "error" raises X64Error, except for integers
      that provably fit 32 bits; "enable" traces and runs the module with 64-bit types enabled.
    check_platform: refuse to lower for a platform that the module was not lowered for. Has no effect if the module
      disables its "platform" check.
    check_shapes: whether to evaluate shape assertions; by default the module decides.
    platform: for a module of several platforms, use the code of this one for all of them. A module of one platform
      still lowers for that platform only.
    loops: "scan" converts loops of known length to `lax.scan`; "while" converts every loop to `lax.while_loop`.
    call_tf_function: called as `call_tf_function(function_list[i], *arrays)` for TF functions that the module calls.
    custom_calls: additional custom-call targets: name to `function(op, *operands)`, which returns results in order.
    allow_custom_calls: custom-call targets that are called although no rule says which types they accept. A kernel
      that a module calls with other types than it expects may read or overwrite memory of this process.
    on_unsupported: called as `on_unsupported(op, error, environment)` for an op that does not lift; returns its
      results. `environment` maps the numbers of values to values.
    limits: how much memory and time the module may ask for; by default `Limits()`.

  Raises:
    TypeError: an option has a wrong type.
    ValueError: the value of an option is not one of its choices.
    ArgumentError: `module` is not a `Module`.
    PlatformError: `platform` is not one of the module's platforms.
    LimitExceededError: the module asks for more than `limits`. Calls of the result raise it, too.
    UnsupportedModuleError: a function of the module calls itself.

  Example:
    >>> import jax
    >>> from graftax.xla_call_module import Module, lift
    >>> exported = jax.export.export(jax.jit(lambda x: x * x))(jax.ShapeDtypeStruct((), "float32"))
    >>> square = lift(Module.from_exported(exported))
    >>> float(jax.grad(lambda x: square(x)[0])(3.0))
    6.0
  """
  check_is_module(module, "lift")
  _check_types(mesh, platform, {"call_tf_function": call_tf_function, "on_unsupported": on_unsupported}, custom_calls)
  check_choices(gradient=gradient, x64=x64, loops=loops)
  if platform is not None and module.platforms and platforms.canonical(platform) not in module.platforms:
    raise errors.PlatformError(f"platform={platform!r}: the module was lowered for {', '.join(module.platforms)}.")
  options = Options(
    mesh=mesh,
    check_platform=check_platform,
    x64=x64,
    loops=loops,
    platform=None if platform is None else platforms.canonical(platform),
    check_shapes=module.checks_shapes if check_shapes is None else check_shapes,
    call_tf_function=call_tf_function,
    function_list=module.function_list,
    custom_calls=dict(custom_calls or {}),
    allow_custom_calls=checked_names(allow_custom_calls),
    on_unsupported=on_unsupported,
    limits=checked_limits(limits),
  )
  return Lifted(module, options, gradient)


def lowered_ops() -> dict[str, str]:
  """Returns the ops of StableHLO, CHLO and Shardy that have a lowering, sorted, each with the module of the lowering.

  Those of the module `unsupported` always raise, with the reason. `register` adds others.

  Example:
    >>> lowered_ops()["stablehlo.dot_general"]
    'contraction'
  """
  found = {name: rule.function.__module__.rpartition(".")[2] for name, rule in sorted(registry.ops.items())}
  return {name: module for name, module in found.items() if name.startswith(("stablehlo.", "chlo.", "sdy."))}
