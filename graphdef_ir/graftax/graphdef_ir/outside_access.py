"""What an op reaches outside of its program when TensorFlow runs it: files, the network, Python, the process.

TensorFlow runs any op that a graph names. Code that hands a graph of unknown origin to TensorFlow asks `outside_access`
first. Ops without state are listed if they reach something; a test compares the list with the signatures of all ops
that TensorFlow registers. Ops with state are refused unless they are known to keep to themselves.

    >>> outside_access(Node("read", "ReadFile"), is_stateful=False)
    'reads or writes files'
    >>> outside_access(Node("find", "LookupTableFindV2"), is_stateful=True)
"""

import re

from graftax.graphdef_ir.graph import Node
from graftax.graphdef_ir.op_traits import ops_with_traits

__all__ = ["outside_access"]

_FILES = "reads or writes files"
_NETWORK = "connects to other processes"
_CODE = "runs code of the host"
_PROCESS = "ends the process"
_UNKNOWN = "has effects that may reach beyond the program"

_ROWS: tuple[tuple[str, str], ...] = (
  # Without state.
  (
    _FILES,
    "CacheDataset GenerateVocabRemapping InitializeTableFromTextFile MatchingFiles ReadFile SnapshotChunkDataset",
  ),
  (_FILES, "SnapshotDataset SnapshotDatasetReader SnapshotDatasetV2 SnapshotNestedDatasetReader"),
  (_FILES, "DebugIdentity DebugNanCount DebugNumericSummary"),  # to the addresses in their attributes
  (_NETWORK, "RegisterDataset RegisterDatasetV2 TPUPartitionedCall XlaSendToHost"),
  (_CODE, "DatasetFromGraph PyFuncStateless XlaCustomCall XlaCustomCallV2 XlaLaunchV2"),
  (_PROCESS, "Abort"),
  # With state, or with traits that would let them pass.
  (_FILES, "CreateSummaryFileWriter ImportEvent InitializeTableFromTextFileV2 LoadAndRemapMatrix MergeV2Checkpoints"),
  (_FILES, "Restore RestoreSlice RestoreV2 Save SaveSlices SaveV2 WriteFile"),
  (_FILES, "CSVDataset CSVDatasetV2 FixedLengthRecordDataset FixedLengthRecordDatasetV2 LMDBDataset LoadDataset"),
  (_FILES, "MatchingFilesDataset SaveDataset SaveDatasetV2 TFRecordDataset TFRecordDatasetV2 TextLineDataset"),
  (_FILES, "FixedLengthRecordReader FixedLengthRecordReaderV2 LMDBReader TFRecordReader TFRecordReaderV2 RecordInput"),
  (_FILES, "TextLineReader TextLineReaderV2 WholeFileReader WholeFileReaderV2 DatasetToTFRecord"),
  (_FILES, "FixedUnigramCandidateSampler Skipgram"),  # their vocabularies
  (_NETWORK, "DataServiceDataset DataServiceDatasetV2 DataServiceDatasetV3 DataServiceDatasetV4 RemoteCall RpcCall"),
  (_NETWORK, "RpcClient RpcServer RpcServerStart SqlDataset ExperimentalSqlDataset"),
  (_CODE, "EagerPyFunc PyFunc GeneratorDataset XlaCallModule"),
)
_REACHES = {op: what for what, ops in _ROWS for op in ops.split()}

# Attributes that name a file -> the values of them that do not.
_FILE_ATTRIBUTES = {
  "DecodeProtoV2": ("descriptor_source", re.compile(rb"(local://|bytes://.*)?", re.DOTALL)),
  "EncodeProto": ("descriptor_source", re.compile(rb"(local://|bytes://.*)?", re.DOTALL)),
  "PrintV2": ("output_stream", re.compile(rb"stdout|stderr|log\(info\)|log\(warning\)|log\(error\)")),
}

# Ops with state that is their own, or that of the program, besides those with traits.
_KEEPS_TO_ITSELF = re.compile(
  r"Resource(Apply|CountUpTo|Scatter|SparseApply|StridedSliceAssign|Accumulator|ConditionalAccumulator)\w*"
  r"|(Assign(Add|Sub)VariableOp|CheckNumerics(V2)?|DestroyResourceOp|DisableCopyOnRead|Empty|GuaranteeConst)"
  r"|(LookupTable|TensorArray|Stack|Random|Stateful|BoostedTrees|CudnnRNN|Sentencepiece)\w*"
  r"|(All|Learned|LogUniform|ThreadUnsafeUnigram|Uniform|LearnedUnigram)CandidateSampler"
  r"|(SampleDistortedBoundingBox(V2)?|NonDeterministicInts|StatelessRandomGetAlg|Timestamp|TemporaryVariable)"
)
_WITH_TRAITS = frozenset(ops_with_traits())


def outside_access(node: Node, *, is_stateful: bool) -> str | None:
  """Returns what a node does outside of its program if TensorFlow runs it, such as "reads or writes files".

  Args:
    node: the node.
    is_stateful: whether TensorFlow marks its op as stateful.

  Returns:
    None if it does nothing outside.
  """
  found = _REACHES.get(node.op)
  if found is not None:
    return found
  if node.op in _FILE_ATTRIBUTES:
    name, harmless = _FILE_ATTRIBUTES[node.op]
    value = node.attrs.get(name, b"")
    return None if not value or (isinstance(value, bytes) and harmless.fullmatch(value)) else _FILES
  if not is_stateful or node.op in _WITH_TRAITS or _KEEPS_TO_ITSELF.fullmatch(node.op):
    return None
  return _UNKNOWN
