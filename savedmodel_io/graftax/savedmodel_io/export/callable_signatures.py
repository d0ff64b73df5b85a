"""`CallableSignatures`: the signatures of a SavedModel as functions, which use the defaults of their inputs."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graftax.convert import InputError
from graftax.savedmodel_io.export._tensorflow import import_tensorflow
from graftax.savedmodel_io.pytrees import Leaf

__all__ = ["CallableSignatures"]


class CallableSignatures:
  """The signatures of a model in a session of TensorFlow 1, as Python functions.

  `tf.saved_model.load(path).signatures` need all inputs. These functions leave defaults to the model, as TensorFlow
  Serving does. So do the functions of `graftax.savedmodel_io.load(path).convert(name)`, which do not need TensorFlow.

  Args:
    sess: the session that holds the graph.
    signature_defs: signature name -> `SignatureDef`.

  Example:
    >>> import tempfile
    >>> import tensorflow as tf
    >>> from graftax.savedmodel_io import ExportManager, JaxModule, ServingConfig, TensorSpecWithDefault
    >>> folder = tempfile.mkdtemp()
    >>> spec = TensorSpecWithDefault(tf.TensorSpec([], tf.float32, name="x"), 2.0)
    >>> module = JaxModule({"w": 3.0}, lambda params, x: {"y": params["w"] * x})
    >>> ExportManager(module, [ServingConfig("serving_default", [spec])]).save(folder)
    >>> serve = CallableSignatures.from_saved_model(folder, ["serve"]).signatures["serving_default"]
    >>> serve()["y"].item(), serve(x=1.0)["y"].item()
    (6.0, 3.0)
  """

  def __init__(self, sess: Any, signature_defs: Mapping[str, Any]):
    self._signatures = {
      name: functools.partial(_call, sess, name, signature) for name, signature in signature_defs.items()
    }

  @classmethod
  def from_saved_model(cls, model_dir: str, tags: Sequence[str], sess_config: Any = None) -> "CallableSignatures":
    """Returns the signatures of a SavedModel.

    Args:
      model_dir: the folder of the SavedModel.
      tags: the tags of the MetaGraph, such as `["serve"]`.
      sess_config: a `tf.compat.v1.ConfigProto` for the session.

    Raises:
      LibraryNotFoundError: TensorFlow is not installed.
    """
    tf = import_tensorflow("CallableSignatures")
    sess = tf.compat.v1.Session(graph=tf.Graph(), config=sess_config)
    meta_graph = tf.compat.v1.saved_model.load(sess, list(tags), str(model_dir))
    return cls(sess, meta_graph.signature_def)

  @property
  def signatures(self) -> Mapping[str, Callable[..., dict[str, Leaf]]]:
    """Returns signature name -> function from inputs by name to a dict of NumPy arrays.

    The functions raise `InputError` for the name of an input that the signature does not have.
    """
    return self._signatures


def _call(session: Any, name: str, signature: Any, **inputs: Leaf) -> dict[str, Leaf]:
  unknown = sorted(inputs.keys() - set(signature.inputs))
  if unknown:
    raise InputError(f"signature {name!r} has no inputs {unknown}; its inputs are {sorted(signature.inputs)}")
  feeds = {signature.inputs[key].name: _fed(value) for key, value in inputs.items()}
  results: dict[str, Leaf] = session.run({key: info.name for key, info in signature.outputs.items()}, feeds)
  return results


def _fed(value: object) -> Any:
  return value.numpy() if hasattr(value, "numpy") else value
