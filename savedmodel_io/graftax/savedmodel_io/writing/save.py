"""`save`: writes SavedModels of JAX functions and parameters, without TensorFlow."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import jax

from graftax.convert import Program, jax_program
from graftax.savedmodel_io.errors import SaveInputError
from graftax.savedmodel_io.files.saved_model_pb import model_file
from graftax.savedmodel_io.pytrees import PyTree
from graftax.savedmodel_io.writing.atomic import check_new_folder
from graftax.savedmodel_io.writing.bundles.bundle_writer import Progress
from graftax.savedmodel_io.writing.jax_function import JaxFunction, as_traces, symbolic_arguments
from graftax.savedmodel_io.writing.new_model import write_saved_model
from graftax.savedmodel_io.writing.parameter_tree import ParameterTree, parameter_tree

__all__ = ["save"]

_CALL = "__call__"
_DEFAULT_SIGNATURE = "serving_default"
_PARAMS = "params"


def save(
  path: str | os.PathLike[str],
  functions: Any,
  params: PyTree = None,
  *,
  signatures: Mapping[str, Any] | None = None,
  trainable: PyTree = True,
  gradient_order: int = 2,
  forward_mode: bool = False,
  target: Any = None,  # a `Target` has a class of xla_call_module, which this package does not import
  platforms: Sequence[str] | None = None,
  disabled_checks: Sequence[jax.export.DisabledSafetyCheck] = (),
  lowering: Literal["stablehlo", "tf_ops"] = "stablehlo",
  regularization_losses: Sequence[Callable[..., Any]] = (),
  assets: Mapping[str, str | os.PathLike[str]] | Sequence[str | os.PathLike[str]] = (),
  tags: Sequence[str] = ("serve",),
  overwrite: bool = False,
  progress: Progress | None = None,
) -> None:
  """Writes JAX functions and their parameters as a SavedModel, without TensorFlow.

  TensorFlow loads the model, calls its functions with nested arguments, differentiates them as JAX does, trains their
  variables, serves the signatures and saves the model again. Parameters are stored in a checkpoint and streamed: a
  sharded `jax.Array` is written shard by shard. The folder is written under another name and renamed when it is
  complete.

  Args:
    path: the folder to write; folders around it that do not exist are made.
    functions: attribute path, such as `"predict"`, `"__call__"` or `"encoder.call"` -> a `JaxFunction`, or a tuple
      `(function, *args)` with a `jax.ShapeDtypeStruct` or an array for each argument, or a `Program`; or a list of
      these, for a function with several traces. The same value under two names is one function with two names. A
      function alone, rather than a dict, is `"__call__"`.
    params: the first argument of each function, a pytree of arrays. Each array becomes a variable. The loaded object
      has them in its attribute `params`, nested in dicts and lists. TensorFlow loads tuples as lists, so a tuple is
      written as a list, and a named tuple as a dict.
    signatures: name -> the name of a function that has one trace, or what `functions` has as values. By default
      `"serving_default"` is `"__call__"`, or the only function, if it has one trace.
    trainable: whether TensorFlow trains the variables: a bool, or a pytree of them like the upper part of `params`.
      Integers are never trained.
    gradient_order: how often TensorFlow can differentiate the functions. Beyond that it raises a LookupError.
    forward_mode: whether `tf.autodiff.ForwardAccumulator` works, too, which needs one more order.
    target: the TensorFlow that will load the model, such as `"tensorflow-2.16"`; by default the oldest from 2.16 on
      that has everything in the functions, and none newer than the installed one. With `lowering="tf_ops"`, "onnx",
      "tflite" or "tfjs" for models that converters to these will read.
    platforms: where the functions can run: "cpu", "cuda", "rocm", "tpu". None is JAX's default backend.
    disabled_checks: `jax.export.DisabledSafetyCheck`s.
    lowering: "stablehlo" for XlaCallModule nodes; "tf_ops" for plain TensorFlow ops, which TF.js, ONNX converters and
      builds of TensorFlow without XLA run. Plain ops have no `platforms` and `disabled_checks`; see
      `jax_program`.
    regularization_losses: functions of `params` that return a scalar.
    assets: files to copy, or file name -> file.
    tags: the tags of the MetaGraph.
    overwrite: replace a SavedModel of that name. Other files and folders are never replaced.
    progress: called with the number of bytes of parameters written so far and the total, about once per MiB.

  Raises:
    SaveInputError: names, signatures, parameters, shapes or assets do not fit together.
    ConversionError: TensorFlow cannot run a function.
    VersionError: the target is not known, or too old for an op of a function.
    UnsupportedModuleError: a function has side effects or communicates between devices.
    UnsupportedPrimitiveError: operations of a function have no form in plain TensorFlow ops.
    TensorValueError: a parameter cannot be stored.
    OutputExistsError: something of that name exists and may not be replaced.
    MissingFolderError: a part of the path in front of the name is a file.
    CheckpointWriteError: the disk is full, or a file cannot be written for another reason.

  Example:
    >>> import tempfile
    >>> import jax, numpy as np
    >>> from graftax.savedmodel_io import load
    >>> target = os.path.join(tempfile.mkdtemp(), "model")
    >>> x = jax.ShapeDtypeStruct(jax.export.symbolic_shape("batch, 2"), np.float32)
    >>> save(target, {"predict": (lambda params, x: x @ params["w"], x)}, {"w": np.ones((2, 3), np.float32)})
    >>> load(target).functions["predict"]
    <RestoredFunction predict(x): 1 trace>
  """
  check_new_folder(Path(path), replaces=model_file(path) if overwrite else None)
  named = functions if isinstance(functions, Mapping) else {_CALL: functions}
  tree = None if params is None else parameter_tree(params, trainable)
  options = {
    "gradient_order": gradient_order,
    "forward_mode": forward_mode,
    "target": target,
    "platforms": platforms,
    "disabled_checks": disabled_checks,
    "lowering": lowering,
  }
  programs = _Programs(tree, options)
  made = {name: programs.of(value, f"function {name!r}", str(name)) for name, value in named.items()}
  losses = [programs.of(loss, "a regularization loss", "regularization_loss")[0] for loss in regularization_losses]
  write_saved_model(
    path,
    made,
    signatures=_signatures(signatures, made, programs),
    params={} if tree is None else tree.values,
    trainable={} if tree is None else tree.trainable,
    attributes={} if tree is None or not tree.values else {_PARAMS: tree.attributes},
    regularization_losses=losses,
    assets=assets,
    tags=tags,
    overwrite=overwrite,
    progress=progress,
  )


class _Programs:
  """Makes programs, each once."""

  def __init__(self, tree: ParameterTree | None, options: Mapping[str, Any]):
    self._tree = tree
    self._options = options
    self._made: dict[int, tuple[Any, tuple[Program, ...]]] = {}

  def of(self, value: object, what: str, name: str) -> tuple[Program, ...]:
    """Returns the traces of a function, as a user writes it."""
    if id(value) not in self._made:
      traces = tuple(self._program(trace, what, name) for trace in as_traces(value, what))
      self._made[id(value)] = value, traces  # an id is unique as long as its object lives
    return self._made[id(value)][1]

  def _program(self, trace: JaxFunction | Program, what: str, name: str) -> Program:
    if isinstance(trace, Program):
      return trace
    args, kwargs = symbolic_arguments(trace, what)
    params = self._tree.specs if self._tree is not None and trace.takes_params else None
    return jax_program(
      trace.function, args, kwargs, params=params, name=name, with_gradient=trace.with_gradient, **self._options
    )


def _signatures(
  signatures: Mapping[str, Any] | None, made: Mapping[str, tuple[Program, ...]], programs: _Programs
) -> dict[str, str | Program]:
  if signatures is None:
    default = _CALL if _CALL in made else next(iter(made), None) if len(made) == 1 else None
    return {_DEFAULT_SIGNATURE: default} if default is not None and len(made[default]) == 1 else {}
  if not isinstance(signatures, Mapping):
    raise SaveInputError(f"signatures is a {type(signatures).__name__}; expected a dict from names to functions")
  checked: dict[str, str | Program] = {}
  for name, value in signatures.items():
    if isinstance(value, str):
      checked[name] = value
      continue
    what = f"signature {name!r}"
    traces = programs.of(value, what, str(name))
    if len(traces) != 1:
      raise SaveInputError(f"{what} has {len(traces)} traces; expected one")
    checked[name] = traces[0]
  return checked
