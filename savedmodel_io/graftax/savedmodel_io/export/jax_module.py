"""`JaxModule`: JAX functions with parameters, as a module of TensorFlow."""

import functools
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from graftax.savedmodel_io.export._tensorflow import (
  TfTensor,
  import_tensorflow,
  imported_tensorflow,
  tensorflow_module_class,
)
from graftax.savedmodel_io.export.dtensor_arrays import one_spelling
from graftax.savedmodel_io.export.live_methods import LiveMethods, live_methods
from graftax.savedmodel_io.export.module_methods import ModuleMethod, module_methods
from graftax.savedmodel_io.export.module_parameters import ModuleParameters, module_parameters
from graftax.savedmodel_io.export.module_sharding import module_sharding
from graftax.savedmodel_io.pytrees import PyTree

__all__ = ["JaxModule", "ModuleParts", "module_parts", "module_variables"]


class JaxModule:
  """JAX functions with parameters, for TensorFlow.

  If TensorFlow is imported, a new module also is a `tf.Module`: parameters are its variables, `methods` are functions
  of TensorFlow, and `ExportManager` saves it with serving signatures. Without TensorFlow `ExportManager` writes the
  same model, and `methods` imports TensorFlow when it is first asked for. From then on TensorFlow may change the
  variables, so `ExportManager` saves through TensorFlow.

  Args:
    params: a pytree of arrays. Each becomes a variable named by its path, such as "dense.kernel"; keys of random
      numbers (`jax.random.key`) become variables of their bits.
    apply_fn: a JAX function of `(params, *inputs)`, each input a pytree of arrays; or a mapping from keys to functions.
      A single function has the key `JaxModule.DEFAULT_METHOD_KEY`.
    trainable: what TensorFlow trains: None for nothing, a bool, or a pytree of bools like the upper part of `params`.
      Integers and keys are never trained. If anything is true, the functions have gradients.
    input_polymorphic_shape: names for the dimensions of the input that may change, as `jax2tf.convert` takes them, such
      as "batch, ..."; for several inputs one text for all, or a sequence of one for each. None if any size that is not
      known may change: the first ones together, the others each for itself. If `apply_fn` is a mapping, None, or a
      mapping with the same keys.
    jax2tf_kwargs: further options of `graftax.convert.jax2tf.convert`; if `apply_fn` is a mapping, a mapping with the
      same keys. `with_gradient` may be given if it agrees with `trainable`. `lowering="tf_ops"` makes plain TensorFlow
      ops.
    jit_compile: whether TensorFlow compiles the functions; a bool, or a mapping with the keys of `apply_fn`. Pass False
      if the SavedModel is for programs without XLA.
    name: the name of the module.
    pspecs: the `PartitionSpec` of each parameter. Parameters must be `jax.Array`s, and the module must be made inside
      `maybe_enable_dtensor_export_on(mesh)`; its variables are then DTensors.
    allow_multi_axis_sharding_conslidation: split a dimension that several mesh axes split by the largest of them.
    allow_multi_axis_sharding_consolidation: the same, in the spelling of later versions of orbax.export.

  Attributes:
    DEFAULT_METHOD_KEY: the key of a single function.

  Raises:
    SaveInputError: arguments contradict each other, or a parameter is not an array.

  Example:
    >>> import numpy as np
    >>> module = JaxModule({"w": np.ones(2, np.float32)}, lambda params, x: x @ params["w"], trainable=True)
    >>> module.jax_methods[JaxModule.DEFAULT_METHOD_KEY](np.ones((3, 2), np.float32)).shape
    (3,)
  """

  DEFAULT_METHOD_KEY = "jax_module_default_method"

  _live: LiveMethods | None

  def __new__(cls, *args: Any, **kwargs: Any) -> "JaxModule":
    tf = imported_tensorflow()
    if tf is None or issubclass(cls, tf.Module):
      return super().__new__(cls)
    return super().__new__(tensorflow_module_class(cls, tf))

  def __init__(
    self,
    params: object,
    apply_fn: Callable[..., Any] | Mapping[str, Callable[..., Any]],
    trainable: PyTree = None,
    input_polymorphic_shape: PyTree = None,
    jax2tf_kwargs: Mapping[str, Any] | None = None,
    jit_compile: bool | Mapping[str, bool] | None = True,
    name: str | None = None,
    pspecs: PyTree = None,
    allow_multi_axis_sharding_conslidation: bool | None = None,
    *,
    allow_multi_axis_sharding_consolidation: bool | None = None,
  ):
    tf = imported_tensorflow()
    is_live = tf is not None and isinstance(self, tf.Module)
    if is_live:
      super().__init__(name=name)  # type: ignore[call-arg]  # of tf.Module
    # TensorFlow wraps dicts and lists that are attributes of modules, but does not look into objects.
    self._parameters = module_parameters(params, trainable)
    self._methods_by_key = MappingProxyType(
      module_methods(
        apply_fn,
        input_polymorphic_shape,
        jax2tf_kwargs,
        jit_compile,
        default_key=self.DEFAULT_METHOD_KEY,
        with_gradient=self._parameters.with_gradient,
      )
    )
    self._sharding = module_sharding(
      self._parameters,
      pspecs,
      one_spelling(allow_multi_axis_sharding_conslidation, allow_multi_axis_sharding_consolidation),
    )
    self._live = None
    self._lock = threading.RLock()
    if is_live:
      live = self._made_live()
      # TensorFlow finds variables and functions to save in these.
      self._variables = live.variables
      self._functions = dict(live.functions)

  @property
  def with_gradient(self) -> bool:
    """Returns whether the functions have gradients in TensorFlow."""
    return self._parameters.with_gradient

  @property
  def model_params(self) -> PyTree:
    """Returns the parameters: the pytree that the module was made or last updated with."""
    return self._parameters.tree

  @property
  def apply_fn_map(self) -> dict[str, Callable[..., Any]]:
    """Returns key -> JAX function of `(params, *inputs)`, as it was passed."""
    return {key: method.apply_fn for key, method in self._methods_by_key.items()}

  @property
  def input_polymorphic_shape_map(self) -> dict[str, PyTree]:
    """Returns key -> the `input_polymorphic_shape` of the method."""
    return {key: method.polymorphic_shape for key, method in self._methods_by_key.items()}

  @property
  def jax2tf_kwargs_map(self) -> dict[str, dict[str, Any]]:
    """Returns key -> the options of `jax2tf.convert` that are used, always with `with_gradient`."""
    return {key: dict(method.options) for key, method in self._methods_by_key.items()}

  @property
  def methods(self) -> Mapping[str, Callable[..., Any]]:
    """Returns key -> `tf.function` of the inputs, which reads the variables.

    Raises:
      LibraryNotFoundError: TensorFlow is not installed.
    """
    return dict(self._made_live().functions)

  @property
  def jax_methods(self) -> Mapping[str, Callable[..., Any]]:
    """Returns key -> JAX function of the inputs, which reads the current parameters."""
    return {key: self._jax_method(method) for key, method in self._methods_by_key.items()}

  def update_variables(self, params: object) -> None:
    """Replaces the parameters, and the values of the variables, in place.

    Functions of `methods` and `jax_methods`, also those obtained before, use the new values from then on.

    Args:
      params: a pytree of arrays with the structure, shapes and dtypes of the present parameters.

    Raises:
      VariableValueError: it has another structure, or an array another shape or dtype. Nothing is changed then.
    """
    parameters = self._parameters.updated(params)
    with self._lock:
      if self._live is not None:
        self._live.assign(parameters)
      self._parameters = parameters

  def _jax_method(self, method: ModuleMethod) -> Callable[..., Any]:
    function = functools.partial(self._call, method)
    signature = method.input_signature()
    if signature is not None:
      function.__signature__ = signature  # type: ignore[attr-defined]
    return function

  def _call(self, method: ModuleMethod, *inputs: PyTree, **named_inputs: PyTree) -> PyTree:
    return method.apply_fn(self._parameters.tree, *inputs, **named_inputs)

  def _made_live(self) -> LiveMethods:
    with self._lock:
      if self._live is None:
        tf = import_tensorflow("JaxModule.methods")
        self._live = live_methods(tf, self._parameters, tuple(self._methods_by_key.values()), self._sharding)
      return self._live


@dataclass(frozen=True)
class ModuleParts:
  """What a module is made of.

  Attributes:
    parameters: the parameters.
    methods: method key -> method.
  """

  parameters: ModuleParameters
  methods: Mapping[str, ModuleMethod]


def module_parts(module: JaxModule) -> ModuleParts:
  """Returns what a module is made of now."""
  return ModuleParts(module._parameters, module._methods_by_key)


def module_variables(module: JaxModule) -> tuple[TfTensor, ...]:
  """Returns the variables of a module in TensorFlow, in the order of the leaves of its parameters.

  Raises:
    LibraryNotFoundError: TensorFlow is not installed.
  """
  return module._made_live().variables
