"""The errors of this package: one hierarchy under `GraftaxError`, split by what the caller can do about them."""

from graftax.graphdef_ir.errors import GraftaxError

__all__ = [
  "AmbiguousFunctionError",
  "CastError",
  "CheckpointError",
  "CheckpointKeyError",
  "CheckpointNotFoundError",
  "CheckpointWriteError",
  "DTensorError",
  "DamagedCheckpointError",
  "DamagedSavedModelError",
  "DamagedWeightsError",
  "MatchError",
  "MissingFolderError",
  "MissingShardError",
  "NotASavedModelError",
  "OutputExistsError",
  "ParameterFileError",
  "ParameterNameError",
  "SaveInputError",
  "SavedModelError",
  "SavedModelNotFoundError",
  "ShardingError",
  "TensorValueError",
  "UnknownFunctionError",
  "UnknownNameError",
  "UnknownSignatureError",
  "UnknownTagsError",
  "UnsafeOpError",
  "UnsafeWeightsError",
  "UnsupportedCheckpointError",
  "UnsupportedSavedModelError",
  "VariableValueError",
  "WeightsError",
]


class OutputExistsError(GraftaxError, FileExistsError):
  """Something that may not be replaced has the name of the file or folder to write."""


class MissingFolderError(GraftaxError, FileNotFoundError):
  """The folder in which something is to be written does not exist and cannot be made."""


class CheckpointError(GraftaxError):
  """A checkpoint could not be read or written."""


class CheckpointNotFoundError(CheckpointError, FileNotFoundError):
  """The given path prefix has no checkpoint."""


class MissingShardError(CheckpointError, FileNotFoundError):
  """The index names a data shard that is not on disk."""


class DamagedCheckpointError(CheckpointError, ValueError):
  """The bytes of a checkpoint contradict the format, their checksum or each other."""


class UnsupportedCheckpointError(CheckpointError, NotImplementedError):
  """A well-formed checkpoint uses something we do not read (byte order, version, tensor kind)."""


class CheckpointKeyError(CheckpointError, KeyError):
  """The checkpoint holds no tensor of that key."""

  def __str__(self) -> str:
    return Exception.__str__(self)  # KeyError would print the repr of the message


class CheckpointWriteError(CheckpointError, OSError):
  """The files of a checkpoint could not be written, for example because the disk is full."""


class TensorValueError(CheckpointError, ValueError):
  """A checkpoint cannot store a value, or not under the given key."""


class SavedModelError(GraftaxError):
  """A SavedModel could not be read or used."""


class SavedModelNotFoundError(SavedModelError, FileNotFoundError):
  """The folder, or the saved_model.pb in it, does not exist."""


class NotASavedModelError(SavedModelError, ValueError):
  """The file exists, but is not a SavedModel."""


class DamagedSavedModelError(SavedModelError, ValueError):
  """A SavedModel whose parts contradict the format or each other."""


class UnsupportedSavedModelError(SavedModelError, NotImplementedError):
  """A well-formed SavedModel uses something we do not read."""


class UnknownTagsError(SavedModelError, ValueError):
  """No MetaGraph carries exactly the tags asked for, or several could be meant."""


class UnknownSignatureError(SavedModelError, KeyError):
  """The SavedModel has no signature of that name."""

  def __str__(self) -> str:
    return Exception.__str__(self)


class UnknownFunctionError(SavedModelError, KeyError):
  """The SavedModel has no restored function at that attribute path."""

  def __str__(self) -> str:
    return Exception.__str__(self)


class UnknownNameError(SavedModelError, KeyError):
  """The SavedModel has no variable or resource of that name."""

  def __str__(self) -> str:
    return Exception.__str__(self)


class UnsafeOpError(SavedModelError, ValueError):
  """A part of a model that TensorFlow is to run has ops that reach files, the network or code outside of it."""


class AmbiguousFunctionError(SavedModelError, TypeError):
  """The arguments match none, or the wrong number, of the concrete functions of a restored function."""


class CastError(SavedModelError, TypeError):
  """Variables cannot be cast as asked."""


class ShardingError(SavedModelError, ValueError):
  """Variables cannot be placed on devices as asked."""


class ParameterFileError(SavedModelError, ValueError):
  """A file or folder of parameters is damaged or of another kind, or cannot hold them."""


class ParameterNameError(SavedModelError, ValueError):
  """Names of parameters contradict each other, or cannot be nested or renamed."""


class MatchError(SavedModelError, ValueError):
  """A model has nothing that parameters could be matched with, or what was matched is not complete or is wrong."""


class SaveInputError(SavedModelError, ValueError):
  """What is to be saved contradicts itself, or a SavedModel cannot hold it."""


class DTensorError(SavedModelError, RuntimeError):
  """DTensor, TensorFlow's arrays over several devices, is not in the state that the call needs."""


class VariableValueError(SavedModelError, ValueError):
  """A new value does not fit its variable, or the saved files have no place for it."""


class WeightsError(GraftaxError):
  """A file of weights could not be read."""


class DamagedWeightsError(WeightsError, ValueError):
  """A file of weights is damaged, or is something else."""


class UnsafeWeightsError(WeightsError, ValueError):
  """A file of weights refers to other files, or claims to hold more than is sensible."""
