"""`ServingConfig`: a serving signature of a `JaxModule`."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from graftax.savedmodel_io.errors import SaveInputError
from graftax.savedmodel_io.export._tensorflow import import_tensorflow
from graftax.savedmodel_io.export.input_specs import checked_signature
from graftax.savedmodel_io.pytrees import PyTree

__all__ = ["ServingConfig"]


@dataclasses.dataclass
class ServingConfig:
  """A serving signature: a method of a `JaxModule` between two functions of TensorFlow.

  Attributes:
    signature_key: the name of the signature, or several names of the same one.
    input_signature: a spec for each input of `tf_preprocessor`, or of the method if there is none: `tf.TensorSpec`,
      `TensorSpecWithDefault`, or anything with `shape` and `dtype`, nested as the input. Dimensions that are None or
      symbolic are open; `JaxModule`'s `input_polymorphic_shape` decides which of them are the same. None is the
      signature of `tf_preprocessor`, which must be a `tf.function` with one.
    tf_preprocessor: a function of TensorFlow that computes the input of the method. If the method has several inputs,
      it returns a tuple of them.
    tf_postprocessor: a function of TensorFlow of the result of the method.
    extra_trackable_resources: tables and other resources that the processors use, nested in any way.
    method_key: which method; by default the only one.

  Example:
    >>> import numpy as np
    >>> rows = jax.ShapeDtypeStruct(jax.export.symbolic_shape("batch, 2"), np.float32)
    >>> config = ServingConfig(["serving_default", "predict"], [rows])
    >>> config.get_signature_keys()
    ['serving_default', 'predict']
  """

  signature_key: str | Sequence[str]
  input_signature: Sequence[PyTree] | None = None
  tf_preprocessor: Callable[..., Any] | None = None
  tf_postprocessor: Callable[..., Any] | None = None
  extra_trackable_resources: Any = None
  method_key: str | None = None

  def get_signature_keys(self) -> list[str]:
    """Returns the names of the signature.

    Raises:
      SaveInputError: there are none, or one is not a string.
    """
    keys = [self.signature_key] if isinstance(self.signature_key, str) else self.signature_key
    if not isinstance(keys, Sequence) or not keys or not all(isinstance(key, str) and key for key in keys):
      raise SaveInputError(f"signature_key is {self.signature_key!r:.80}; expected a name, or a list of names")
    return list(keys)

  def get_input_signature(self, required: bool = True) -> tuple[PyTree, ...] | None:
    """Returns the given input signature, or that of `tf_preprocessor`.

    Args:
      required: whether it is an error if there is none; else the result is None.

    Raises:
      SaveInputError: there is none, or it is not a sequence of specs.
    """
    found = self.input_signature
    if found is None:
      found = getattr(self.tf_preprocessor, "input_signature", None)
    if found is not None:
      return checked_signature(found, self._where)
    if required:
      raise SaveInputError(
        f"{self._where}: neither the ServingConfig nor its `tf_preprocessor` has an input_signature; pass one"
      )
    return None

  def get_infer_step(self, infer_step_fns: Callable[..., Any] | Mapping[str, Any]) -> Any:
    """Returns the function of the method.

    Args:
      infer_step_fns: method key -> function, such as `JaxModule.methods` or `JaxModule.jax_methods`; or one function.

    Raises:
      SaveInputError: there is no such method, or there are several and no `method_key`.
    """
    if callable(infer_step_fns):
      return infer_step_fns
    if self.method_key is None and len(infer_step_fns) == 1:
      return next(iter(infer_step_fns.values()))
    if self.method_key is None:
      raise SaveInputError(f"{self._where}: there are the methods {list(infer_step_fns)}; choose one with `method_key`")
    if self.method_key not in infer_step_fns:
      raise SaveInputError(
        f"{self._where}: there is no method {self.method_key!r}; the methods are {list(infer_step_fns)}"
      )
    return infer_step_fns[self.method_key]

  def bind(
    self,
    infer_step_fns: Callable[..., Any] | Mapping[str, Callable[..., Any]],
    require_numpy: bool = True,
  ) -> dict[str, Callable[..., Any]]:
    """Returns signature name -> function of the inputs, from the first processor to the last.

    Args:
      infer_step_fns: see `get_infer_step`.
      require_numpy: whether results of processors become arrays of NumPy. This is for JAX functions; False is for
        functions of TensorFlow.

    Raises:
      SaveInputError: see `get_infer_step`.
      LibraryNotFoundError: there are processors and TensorFlow is not installed.
    """
    infer_step = self.get_infer_step(infer_step_fns)
    preprocessor = self._processor(self.tf_preprocessor, require_numpy)
    postprocessor = self._processor(self.tf_postprocessor, require_numpy)
    takes_several = _takes_several(infer_step)

    def infer(*inputs: PyTree) -> PyTree:
      if preprocessor is not None:
        result = preprocessor(*inputs)
        inputs = result if takes_several and isinstance(result, tuple) else (result,)
      outputs = infer_step(*inputs)
      return outputs if postprocessor is None else postprocessor(outputs)

    return dict.fromkeys(self.get_signature_keys(), infer)

  @property
  def has_processors(self) -> bool:
    """Returns whether the signature needs TensorFlow."""
    resources = self.extra_trackable_resources
    return self.tf_preprocessor is not None or self.tf_postprocessor is not None or resources is not None

  @property
  def _where(self) -> str:
    return f"signature {self.signature_key!r}"

  def _processor(self, function: Callable[..., Any] | None, require_numpy: bool) -> Callable[..., Any] | None:
    if function is None:
      return None
    if not callable(function):
      raise SaveInputError(f"{self._where}: a processor is {function!r:.80}; expected a function of TensorFlow")
    live: Callable[..., Any] = import_tensorflow("a processor of a ServingConfig").function(function)
    if not require_numpy:
      return live
    return lambda *inputs: jax.tree.map(lambda tensor: tensor.numpy(), live(*inputs))


def _takes_several(function: Callable[..., Any]) -> bool:
  """Returns whether a function needs more than one positional argument."""
  try:
    signature = inspect.signature(getattr(function, "python_function", function))
  except (TypeError, ValueError):
    return False
  kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
  needed = [p for p in signature.parameters.values() if p.kind in kinds and p.default is p.empty]
  return len(needed) > 1
