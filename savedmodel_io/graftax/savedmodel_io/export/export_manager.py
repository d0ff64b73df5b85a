"""`ExportManager`: a `JaxModule` with serving signatures, as a SavedModel."""

import copy
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from graftax.savedmodel_io.errors import SaveInputError
from graftax.savedmodel_io.export._tensorflow import TfFunction, import_tensorflow, imported_tensorflow
from graftax.savedmodel_io.export.batching import with_default_args
from graftax.savedmodel_io.export.jax_module import JaxModule, ModuleParts, module_parts, module_variables
from graftax.savedmodel_io.export.serving_config import ServingConfig
from graftax.savedmodel_io.export.serving_programs import ServingPrograms, serving_programs
from graftax.savedmodel_io.pytrees import PyTree
from graftax.savedmodel_io.writing.new_model import write_saved_model

__all__ = ["ExportManager"]


class ExportManager:
  """Saves a `JaxModule` with serving signatures.

  The loaded model has the signatures. If there is one `ServingConfig`, it can also be called with nested inputs.

  Args:
    module: the functions and parameters.
    serving_configs: the signatures.

  Raises:
    SaveInputError: two signatures have one name, or a `ServingConfig` contradicts itself or the module.

  Example:
    >>> import tempfile
    >>> import jax, numpy as np
    >>> from graftax.savedmodel_io import load
    >>> module = JaxModule({"w": np.ones((2, 3), np.float32)}, lambda params, x: {"y": x @ params["w"]})
    >>> config = ServingConfig("serving_default", [jax.ShapeDtypeStruct((4, 2), np.float32)])
    >>> folder = os.path.join(tempfile.mkdtemp(), "model")
    >>> ExportManager(module, [config]).save(folder)
    >>> load(folder).signatures["serving_default"]
    <Signature serving_default(inputs_0: float32[4, 2]) -> {y: float32[4, 3]}>
  """

  def __init__(self, module: JaxModule, serving_configs: Sequence[ServingConfig]):
    if not isinstance(module, JaxModule):
      raise SaveInputError(f"module is {module!r:.80}; expected a JaxModule")
    if not isinstance(serving_configs, Sequence):
      raise SaveInputError(f"serving_configs is {serving_configs!r:.80}; expected a list of ServingConfigs")
    self._module = module
    self._configs = tuple(serving_configs)
    _check_keys(self._configs)
    for config in self._configs:
      config.get_input_signature()
      config.get_infer_step(module.jax_methods)

  @property
  def tf_module(self) -> Any:
    """Returns the `tf.Module` that is saved.

    Raises:
      LibraryNotFoundError: TensorFlow is not installed.
    """
    return self._live[0]

  @property
  def serving_signatures(self) -> dict[str, TfFunction]:
    """Returns signature name -> `tf.function`.

    Raises:
      LibraryNotFoundError: TensorFlow is not installed.
    """
    return dict(self._live[1])

  @functools.cached_property
  def _live(self) -> tuple[Any, dict[str, TfFunction]]:
    tf = import_tensorflow("ExportManager with functions of TensorFlow")
    functions = [_live_function(self._module, config) for config in self._configs]
    module = tf.Module()
    if len(functions) == 1:
      module.__call__ = functions[0]
    resources = [config.extra_trackable_resources for config in self._configs]
    module.tf_trackable_resources = [resource for resource in resources if resource is not None]
    module.tf_var_leaves = module_variables(self._module)
    return module, self._by_key(functions)

  def _by_key(self, values: Sequence[TfFunction]) -> dict[str, TfFunction]:
    """Returns signature name -> value, from a value for each `ServingConfig`."""
    pairs = zip(self._configs, values, strict=True)
    return {key: value for config, value in pairs for key in config.get_signature_keys()}

  def save(
    self,
    model_path: str | os.PathLike[str],
    save_options: Any = None,
    signature_overrides: Mapping[str, Callable[..., Any]] | None = None,
  ) -> None:
    """Writes a SavedModel. One that is there is replaced.

    If TensorFlow is imported, or a `ServingConfig` has processors, TensorFlow writes it. Otherwise it is written
    without TensorFlow.

    Args:
      model_path: the folder.
      save_options: a `tf.saved_model.SaveOptions`.
      signature_overrides: signature name -> `tf.function` with an input signature, in place of a signature or in
        addition.

    Raises:
      SaveInputError: an argument has the wrong type.
      LibraryNotFoundError: TensorFlow is needed and not installed.
      ConversionError: TensorFlow cannot run a method. If TensorFlow writes the model, errors are those of
        `tf.saved_model.save` and `jax2tf.convert`.
      OutputExistsError: `model_path` is something other than a SavedModel, and TensorFlow is not used.
    """
    needs_tensorflow = any(config.has_processors for config in self._configs)
    if imported_tensorflow() is None and not needs_tensorflow and not save_options and not signature_overrides:
      self._write(model_path)
      return
    tf = import_tensorflow("ExportManager.save with these arguments")
    options = tf.saved_model.SaveOptions() if save_options is None else copy.copy(save_options)
    if not isinstance(options, tf.saved_model.SaveOptions):
      raise SaveInputError(f"save_options is {options!r:.80}; expected tf.saved_model.SaveOptions")
    if not isinstance(signature_overrides or {}, Mapping):
      raise SaveInputError(f"signature_overrides is {signature_overrides!r:.80}; expected a dict of tf.functions")
    options.experimental_custom_gradients = self._module.with_gradient
    module, signatures = self._live
    tf.saved_model.save(module, os.fspath(model_path), {**signatures, **(signature_overrides or {})}, options)

  def load(self, model_path: str | os.PathLike[str], **kwargs: PyTree) -> Any:
    """Returns `tf.saved_model.load(model_path, **kwargs)`.

    Args:
      model_path: the folder of a SavedModel.
      **kwargs: those of `tf.saved_model.load`, such as `tags` and `options`.

    Raises:
      LibraryNotFoundError: TensorFlow is not installed; `graftax.savedmodel_io.load` does not need it.
    """
    return import_tensorflow("ExportManager.load").saved_model.load(os.fspath(model_path), **kwargs)

  def _write(self, model_path: str | os.PathLike[str]) -> None:
    Path(model_path).parent.mkdir(parents=True, exist_ok=True)
    parts = module_parts(self._module)
    parameters, names = parts.parameters, parts.parameters.names
    made = [_programs(parts, config) for config in self._configs]
    write_saved_model(
      model_path,
      {"__call__": made[0].call} if len(made) == 1 else {},
      signatures=self._by_key([programs.signature for programs in made]),
      params=dict(zip(names, parameters.values, strict=True)),
      trainable=dict(zip(names, parameters.trainable, strict=True)),
      attributes={"tf_var_leaves": list(names)} if names else {},
      overwrite=True,
    )


def _programs(parts: ModuleParts, config: ServingConfig) -> ServingPrograms:
  method = config.get_infer_step(parts.methods)
  where = f"signature {config.signature_key!r}"
  return serving_programs(parts.parameters, method, config.get_input_signature() or (), where)


def _check_keys(configs: Sequence[ServingConfig]) -> None:
  """Raises SaveInputError if two signatures have one name."""
  seen: set[str] = set()
  for config in configs:
    if not isinstance(config, ServingConfig):
      raise SaveInputError(f"serving_configs holds {config!r:.80}; expected ServingConfigs")
    for key in config.get_signature_keys():
      if key in seen:
        raise SaveInputError(f"serving_configs: two signatures are named {key!r}; rename one")
      seen.add(key)


def _live_function(module: JaxModule, config: ServingConfig) -> TfFunction:
  keys = config.get_signature_keys()
  infer = config.bind(module.methods, require_numpy=False)[keys[0]]
  return with_default_args(infer, config.get_input_signature() or (), where=f"signature {config.signature_key!r}")
