"""Loads SavedModels: `load(path)` and the `SavedModel` that it returns."""

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from jax.typing import DTypeLike

from graftax.convert import (
  AnnotatedFunction,
  ConvertOptions,
  Program,
  Split,
  convert_program,
  convert_subgraph,
  split_program,
)
from graftax.graphdef_ir import (
  Budget,
  FolderPaths,
  GraftaxError,
  Limits,
)
from graftax.savedmodel_io.checkpoint.reader import CheckpointReader
from graftax.savedmodel_io.errors import CheckpointNotFoundError, DamagedSavedModelError
from graftax.savedmodel_io.files.assets import read_assets
from graftax.savedmodel_io.files.file_budget import FileBudget, spend_objects
from graftax.savedmodel_io.files.model_files import ModelFiles, read_model_files
from graftax.savedmodel_io.model_parts import ModelParts, has_functions
from graftax.savedmodel_io.notebook_view import model_table
from graftax.savedmodel_io.objects.functions import RestoredFunction
from graftax.savedmodel_io.objects.object_graph import (
  read_object_graph,
)
from graftax.savedmodel_io.objects.trackable_graph import match_checkpoint, read_trackable_graph
from graftax.savedmodel_io.programs.from_entry import program_from_entry, program_from_trace
from graftax.savedmodel_io.pytrees import Leaf, PyTree
from graftax.savedmodel_io.signatures import Signature
from graftax.savedmodel_io.variables.casting import variable_cast
from graftax.savedmodel_io.variables.graph_variables import read_graph_variables
from graftax.savedmodel_io.variables.object_variables import read_object_variables
from graftax.savedmodel_io.variables.progress import read_progress
from graftax.savedmodel_io.variables.sharding import Shardings
from graftax.savedmodel_io.variables.variables import Variables

__all__ = ["SavedModel", "load"]


@dataclass(frozen=True, eq=False)
class SavedModel(ModelParts):
  """A model on disk: a SavedModel, or another file with a graph. Each part is decoded on first use.

  Attributes:
    path: the folder of a SavedModel, or the file.
    kind: `"SavedModel"`; `"GraphDef"`, such as a frozen graph; or `"MetaGraph"`, the graph of a checkpoint of TF1.
    tags: the tags of the MetaGraph that was chosen.
    tag_sets: the tags of each MetaGraph in the file; `load(path, tags)` chooses one of these.
    tensorflow_version: the TensorFlow that wrote it, or "".
    checkpoint: the model's variables as a checkpoint; None if the model has none.
    variables: variable name -> array: memory-mapped, or on the devices that `load` was given.
    assets: file name -> path.
    folder: the files that the model may read: those in its own folder, and in those that `load` was given.
    objects: the saved objects by attribute name; has no nodes in a TF1 model.
  """

  def _repr_html_(self) -> str | None:
    """Returns what notebooks show; `graftax inspect MODEL --html FILE` shows more."""
    try:
      return model_table(self, self.program)
    except GraftaxError:
      return None  # a damaged model is shown as text

  def convert(
    self,
    entry: str | Signature | RestoredFunction | None = None,
    /,
    *specs: PyTree,
    options: ConvertOptions | Any = None,
    inputs_at: str | Sequence[str] | Mapping[str, str] | None = None,
    outputs_at: str | Sequence[str] | Mapping[str, str] | None = None,
    **named_specs: PyTree,
  ) -> tuple[AnnotatedFunction, dict[str, Leaf]]:
    """Converts a signature or a restored function to a JAX function with parameters.

    Args:
      entry: name of a signature, or attribute path of a restored function, such as `"encoder.layers.0.call"`; by
        default the `default_entry`. A signature takes precedence over a function of the same name; pass
        `model.functions[name]` for the function.
      *specs: anything with shape and dtype, or Python values, as the function is called: they choose among the traces
        of a restored function, with the function's defaults for what is left out. Not needed if there is one trace.
      options: choices for the conversion. Anything else is the spec of an input named `options`.
      inputs_at: names of tensors of the graph (`"node"`, `"node:1"`) that become the inputs, to convert a part of the
        entry: one name, several for positional arguments, or a dict from argument name to tensor name. Nodes of called
        functions are named `call/node`. Inputs of the entry that are still needed must be among them.
      outputs_at: names of the tensors to return, in the same form.
      **named_specs: the same by keyword; for a signature they narrow the shapes of its inputs.

    Returns:
      `(fn, params)`. For a signature, `fn(params, **inputs)` returns `(dict of outputs, new_params)`; a restored
      function takes its own arguments and returns its own nested result. `params` maps variable names to memory-mapped
      arrays. Their checksums are verified here, which reads each array once; after `load(..., verify=False)` nothing is
      read from disk until it is used.

    Raises:
      UnknownSignatureError: the model has neither a signature nor a function of that name; the message lists them.
      AmbiguousFunctionError: the specs fit none of the function's traces, or none were given to choose among several.
      UnsupportedOpError: ops without a lowering; one error lists all.
      ConversionError: the function captures something other than variables and constants, or it has no tensors of the
        given names.
      DamagedCheckpointError: the checksum of a variable is wrong.

    Example:
      >>> import jax, numpy as np
      >>> from graftax.savedmodel_io import load
      >>> model = load(os.path.join(os.path.dirname(__file__), "testdata/2026_11_21/keras_export"))
      >>> fn, params = model.convert("serve")
      >>> outputs, new_params = jax.jit(fn)(params, features=np.ones((5, 2), np.float32))
      >>> outputs["output_0"].shape
      (5, 1)
    """
    if options is not None and not isinstance(options, ConvertOptions):
      named_specs["options"], options = options, None
    program = self.program(entry, *specs, **named_specs)
    if inputs_at is None and outputs_at is None:
      return convert_program(program, options)
    return convert_subgraph(program, inputs_at, outputs_at, options=options)

  def split(
    self,
    entry: str | Signature | RestoredFunction | None = None,
    /,
    *specs: PyTree,
    options: ConvertOptions | Any = None,
    run_head_with: Literal["numpy", "tensorflow"] = "numpy",
    allow_ops: Collection[str] = (),
    **named_specs: PyTree,
  ) -> Split:
    """Splits a signature or a restored function into its work for the host and a numeric part in JAX.

    The parts run without TensorFlow: the host's parts process strings, tables and encoded images in NumPy.
    Regular expressions and the tokenizers of TensorFlow Text need the extra `text` of graftax-convert, images the
    extra `image`.

    Args:
      entry: as for `convert`.
      *specs: as for `convert`.
      options: choices for the conversion of the numeric part. Anything else is the spec of an input named `options`.
      run_head_with: what runs the head. "tensorflow" has TensorFlow's ops, and those of libraries such as
        tensorflow_text if they are imported. Ops that read or write files, connect to other processes or call Python
        are refused, whichever files they name.
      allow_ops: names of such ops that TensorFlow may run all the same, such as `["ReadFile"]`. They may then do
        anything that this process may do.
      **named_specs: as for `convert`.

    Returns:
      `(head, body, params, tail)`: `tail(jax.jit(body)(params, *head(**inputs)))` are the outputs of the entry. Inputs
      that are text can be `str`, `bytes`, or lists of them; outputs that are text are arrays of `bytes`. `body` takes
      all transforms; it compiles again if the head returns other shapes.

    Raises:
      UnsupportedOpError: some ops are implemented neither for the host nor in JAX, or some tables cannot be read; one
        error lists all.
      ConversionError: a host op stands between two numeric parts with variables.
      LibraryNotFoundError: `run_head_with` is "tensorflow", which is not installed.
      UnsafeOpError: `run_head_with` is "tensorflow", and ops of the head reach outside of the model.
      UnsafeFileError: a table or a node names a file that the model may not read; see `load`.
      Others: as `convert` does.

    Example:
      >>> import jax, numpy as np
      >>> from graftax.savedmodel_io import load
      >>> model = load(os.path.join(os.path.dirname(__file__), "testdata/2026_11_21/keras_export"))
      >>> head, body, params, tail = model.split("serve")
      >>> outputs = tail(jax.jit(body)(params, *head(features=np.ones((5, 2), np.float32))))
      >>> outputs["output_0"].shape
      (5, 1)
    """
    if options is not None and not isinstance(options, ConvertOptions):
      named_specs["options"], options = options, None
    program = self.program(entry, *specs, **named_specs)
    if run_head_with == "numpy":
      return split_program(program, options)
    if run_head_with != "tensorflow":
      raise ValueError(f"split: run_head_with={run_head_with!r}; expected 'numpy' or 'tensorflow'.")
    # Writing models is imported here, as programs that only read do not need it.
    from graftax.savedmodel_io.programs.tensorflow_head import TensorFlowFunction

    return split_program(program, options, make_head=partial(TensorFlowFunction, allow_ops=frozenset(allow_ops)))

  def program(
    self, entry: str | Signature | RestoredFunction | None = None, /, *specs: PyTree, **named_specs: PyTree
  ) -> Program:
    """Returns the `Program` that `convert` converts, for `graftax.convert.convert_subgraph`.

    Args:
      entry: as for `convert`.
      *specs: as for `convert`.
      **named_specs: as for `convert`.

    Raises:
      UnknownSignatureError: the model has neither a signature nor a function of that name; the message lists them.
      AmbiguousFunctionError: the specs fit none of the function's traces, or none were given to choose among several.
      ConversionError: the function takes, returns or captures something that JAX cannot hold.
    """
    return program_from_entry(self, self.default_entry if entry is None else entry, specs, named_specs)

  def program_from_trace(self, function: RestoredFunction, trace: int) -> Program:
    """Returns one trace of one of `model.functions` as a `Program`; `program` returns the trace that a call chooses.

    Args:
      function: an entry of `functions` of this model.
      trace: the position in `function.concrete_functions`; negative ones count from the end.

    Raises:
      UnknownSignatureError: it is a function of another model.
      ConversionError: the trace takes, returns or captures something that JAX cannot hold.
    """
    return program_from_trace(self, function, function.concrete_functions[trace])

  def save(
    self,
    path: str | os.PathLike[str],
    params: Mapping[str, Leaf] | PyTree = None,
    *,
    cast: bool = False,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
  ) -> None:
    """Writes the model, with new values for its variables, as a SavedModel that TensorFlow loads.

    Graph, functions, signatures, objects and assets are the files that were read, byte for byte. The checkpoint is
    written anew with the same keys and slices; variables that are left out, and what else it holds, keep their values.
    The fingerprint gets a new identifier and a new `checkpoint_hash`. The folder is written under another name and
    renamed when it is complete.

    Args:
      path: the folder to write; folders around it that do not exist are made. It may be the model's own, with
        `overwrite=True`: this object then keeps the old values.
      params: variable name -> new value, such as the parameters of `convert` after some steps of training: numpy or JAX
        arrays, or strings. A sharded `jax.Array` is written shard by shard and not gathered. Also what
        `graftax.convert.modules` made of the model: the module of flax.nnx or its `nnx.state`, the layer of Keras, and
        of equinox the pair `(module, state)`.
      cast: convert values of another precision to the variable's dtype: float to float, integer to integer, complex to
        complex. A value that does not fit is an error.
      overwrite: replace a SavedModel of that name. Other files and folders are never replaced.
      progress: called with the number of bytes written so far and the total, about once per MiB.

    Raises:
      UnknownNameError: `params` names a variable that the model does not have.
      UnsupportedSavedModelError: the model is not a SavedModel, but a graph by itself.
      VariableValueError: a value has another shape or dtype than its variable, or the saved files have no place for it.
      TensorValueError: a value is not an array, or does not fit the dtype that it is cast to.
      OutputExistsError: something of that name exists and may not be replaced.
      MissingFolderError: a part of the path in front of the name is a file.
      CheckpointWriteError: the disk is full, or a file cannot be written for another reason.
      DamagedCheckpointError: a value that is copied is damaged.

    Example:
      >>> import tempfile
      >>> import numpy as np
      >>> model = load(os.path.join(os.path.dirname(__file__), "testdata/2026_11_21/keras_export"))
      >>> target = os.path.join(tempfile.mkdtemp(), "tuned")
      >>> model.save(target, {"sequential/head/bias": np.ones(1, np.float32)})
      >>> load(target).variables["sequential/head/bias"]
      array([1.], dtype=float32)
    """
    # Most programs that read a model do not write it.
    from graftax.savedmodel_io.writing.module_values import values_of_module
    from graftax.savedmodel_io.writing.saved_model_copy import copy_saved_model

    values = values_of_module(params)
    copy_saved_model(self, path, values, cast=cast, overwrite=overwrite, progress=progress)


def load(
  path: str | os.PathLike[str],
  tags: str | Iterable[str] | None = None,
  *,
  verify: bool | None = None,
  dtype: DTypeLike | None = None,
  keep: str | Iterable[str] = (),
  sharding: Shardings = None,
  progress: Callable[[int, int], None] | bool | None = None,
  limits: Limits | None = None,
  copy: bool = False,
  allow_files_in: FolderPaths = (),
) -> SavedModel:
  """Loads a SavedModel, or another file with a graph, without TensorFlow.

  Reads the file and the checkpoint's index, matches every variable to the checkpoint and checks that all data is there.
  Values, graph and functions are read when they are asked for. The model reads regular files of its own folder and no
  others, whatever its graph, its records and its symbolic links name.

  Args:
    path: the folder of a SavedModel; a GraphDef, such as a frozen graph (`.pb` or `.pbtxt`); or the `.meta` file of a
      TF1 checkpoint, or a folder with such checkpoints, where the newest is read.
    tags: the tags of the MetaGraph to read, one or several; by default the only one, or "serve" if there are several.
    verify: check the checksum of each variable, once, when its value is first asked for, as `convert` does for the
      variables of a function. This reads all bytes of the variable. Without it a damaged file gives wrong numbers. By
      default all are checked, but with `sharding` only those that one device holds as a whole, because no process reads
      all bytes of the others. With True each process reads all bytes of all variables; `model.checkpoint.verify()`
      checks them on one process.
    dtype: read variables of real numbers in this type, such as `jnp.bfloat16`, instead of their own. They are cast in
      pieces while they are read, so memory holds the result alone. Converted functions promote as JAX does if an op's
      operands have several types.
    keep: patterns of names, as for `fnmatch`, of variables that keep their own type, such as `"*/batch_norm*"`.
    sharding: read variables as `jax.Array`s on devices: a `jax.sharding.Sharding` for all; a dict from variable name to
      one, flat or nested by the slashes in names; or a function of name and shape that returns one, such as
      `partition_rules(mesh, rules)`. None in the place of a Sharding leaves a variable in the mapped file. From the
      file each process reads only what its devices hold, cast to `dtype`. Strings stay NumPy arrays, and integers of 64
      bits if `jax_enable_x64` is off.
    progress: called while `convert` and `program` read the variables of a function, after each variable and about every
      4 MB of a large one, with the number of bytes read so far and the total. True shows a bar of tqdm.
    limits: how much memory the files may ask for beyond what they store. What the program itself may ask for is limited
      by `ConvertOptions.limits`.
    copy: read variables into memory of their own instead of mapping the files. By default they are views of the files:
      nothing is read twice, processes share the memory, and what is not used is not read; of a model of 400 MB,
      `convert` takes a quarter of the time and 7 MB of memory. But if a program then writes into these files, rather
      than putting new ones in their place as `save` does, values change, and if it shortens them, the process ends with
      SIGBUS. Pass True if that can happen, as with `rsync --inplace`.
    allow_files_in: one folder or several whose files the model may read, too, such as those to which symbolic links
      lead: `"~/.cache/huggingface/hub/models--NAME/blobs"`, expanded, for a snapshot in a cache of Hugging Face. The
      environment variable `GRAFTAX_ALLOW_FILES_IN` names folders for all models.

  Raises:
    LimitExceededError: the files ask for more; the message names the limit.
    UnsafeFileError: a file is a link out of the model's folder, not a regular file, or too large. Files that nodes name
      raise it when they are read.
    CastError: `dtype` is not a floating type, or `keep` is given without it.
    ShardingError: `sharding` is something else, or names a variable that the model does not have. `convert` raises it
      if a sharding does not fit the shape of a variable.
    SavedModelNotFoundError: the folder or the file is not there.
    NotASavedModelError: the file is something else.
    UnknownTagsError: no MetaGraph has these tags.
    MissingShardError: a part of the checkpoint is not there.
    DamagedSavedModelError, DamagedCheckpointError: the files are cut off, damaged, or of different models.
    UnsupportedSavedModelError, UnsupportedCheckpointError: valid files that we do not read.

  Example:
      >>> import tempfile
      >>> from graftax.convert import jax_program
      >>> from graftax.savedmodel_io import load, write_saved_model
      >>> folder = os.path.join(tempfile.mkdtemp(), "model")
      >>> program = jax_program(lambda params, x: x * params["w"], [2.0], params={"w": 3.0})
      >>> write_saved_model(folder, {"scale": program}, signatures={"serving_default": "scale"})
      >>> model = load(folder)
      >>> list(model.signatures), list(model.functions), list(model.variables)
      (['serving_default'], ['scale'], ['w'])
      >>> load("no/such/folder")  # doctest: +IGNORE_EXCEPTION_DETAIL
      Traceback (most recent call last):
      SavedModelNotFoundError: no/such/folder: no such folder; expected the folder that holds saved_model.pb
  """
  cast = variable_cast(dtype, keep)
  budget = Budget(limits)
  files = read_model_files(os.fspath(path), tags, budget, allow_files_in)
  meta_graph = files.meta_graph
  file_budget = FileBudget(budget, files.path, files.size_bytes)
  spend_objects(meta_graph, file_budget)
  checkpoint = _open_checkpoint(files, budget, verify=verify is not False, copy=copy)
  try:
    objects = read_object_graph(meta_graph.object_graph_def, file_budget)
    keys = match_checkpoint(objects, None if checkpoint is None else read_trackable_graph(checkpoint, budget))
    if has_functions(objects):
      infos = read_object_variables(objects, checkpoint, keys)
    else:
      infos = read_graph_variables(meta_graph, checkpoint)
    variables = Variables(infos, checkpoint, cast, sharding, verify_shards=verify is True)
    assets = read_assets(meta_graph, files.path, files.folder)
  except DamagedSavedModelError as e:
    raise DamagedSavedModelError(f"{files.path}: {e}") from e
  _check_complete(variables, checkpoint, files)
  return SavedModel(
    path=files.path,
    kind=files.kind,
    tags=frozenset(meta_graph.meta_info_def.tags),
    tag_sets=files.tag_sets,
    tensorflow_version=meta_graph.meta_info_def.tensorflow_version,
    checkpoint=checkpoint,
    variables=variables,
    assets=assets,
    folder=files.folder,
    objects=objects,
    _meta_graph=meta_graph,
    _checkpoint_keys=keys,
    _progress=read_progress(progress),
    _limits=budget.limits,
  )


def _open_checkpoint(files: ModelFiles, budget: Budget, *, verify: bool, copy: bool) -> CheckpointReader | None:
  try:
    prefix = files.checkpoint
    if prefix is None:
      return None
    return CheckpointReader(prefix, verify=verify, limits=budget, copy=copy, folder=files.folder)
  except CheckpointNotFoundError:
    return None  # a model without variables; one with them fails in _check_complete


def _check_complete(variables: Variables, checkpoint: CheckpointReader | None, files: ModelFiles) -> None:
  """Raises if the model has variables but none has a value: then its checkpoint is missing."""
  if checkpoint is not None or not variables.infos or len(variables):
    return
  has = f"the model has {len(variables.infos)} variables"
  if files.kind == "GraphDef":
    raise CheckpointNotFoundError(
      f"{files.path}: {has}, but a GraphDef holds no values; freeze it, or convert it with "
      f"graftax.convert.convert({files.path!r}, inputs=[...], outputs=[...], variables={{name: array}})"
    )
  if files.kind == "MetaGraph":
    raise CheckpointNotFoundError(f"{files.path}: {has}, but there is no checkpoint beside it; copy its files as well")
  raise CheckpointNotFoundError(
    f"{files.checkpoint}.index: no such file, but {has}; copy the folder 'variables' along with saved_model.pb"
  )
