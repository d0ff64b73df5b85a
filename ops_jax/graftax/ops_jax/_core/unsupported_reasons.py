"""Reasons why ops have no lowering, and what to do instead, for the error that lists such ops."""

import re

from graftax.graphdef_ir import OpSignatures
from graftax.ops_jax._core.registry import supported_ops

__all__ = ["reason_without_lowering"]

_SHAPE = "the size of its result depends on data, but JAX's shapes are static; compute it outside, or pad and mask"
_HOST = (
  "it is work for the host; SavedModel.split separates it from the numbers and runs it without TensorFlow, or run it "
  "in TensorFlow or Python and convert what comes after it"
)
_PIPELINE = "it is part of an input pipeline; feed its elements as arguments of the converted function"
_QUEUE = "TF1 queues and stages hold state of a running session; feed their outputs as inputs"
_DEVICES = (
  "it exchanges data with other devices; convert one replica's program and use jax.lax.psum and similar functions"
)
_TPU = "it belongs to TPU runtimes; convert the original function, before it was rewritten for TPUs"
_QUANTIZED = (
  "it is a kernel of graphs quantized for old CPU runtimes; convert the float graph, or its fake quantization"
)
_GRADIENT = "it belongs to a gradient graph built by TensorFlow; convert the forward function and use jax.grad"
_CONTROL_FLOW = (
  "control flow of TensorFlow 1 becomes If and While before ops are lowered; a node that is left over is not part of a "
  "conditional or loop of the usual form, so build the graph with control flow v2"
)
_OLD_ARRAYS = (
  "it belongs to a version of TensorArrays that TensorFlow replaced; build the graph again, which makes tensor lists"
)
_TRAINERS = "its kernel trains a model by itself; train in JAX, or convert the model that it made"
_SERVERS = "it collects requests of a server, or orders its threads; convert the function that it calls"
_OBSERVERS = "it observes values for a debugger or for calibration; save the graph without it"
_TENSORFLOW_TESTS = "only TensorFlow's own tests use it"
_EXPERIMENTAL = "it belongs to an experimental set of ops that no function of TensorFlow's Python API makes"
# Whatever TensorFlow's compiler has, and could be asked to compile, has a lowering: op_index_test.py checks that.
_NOT_WRITTEN = (
  "it has no lowering, and TensorFlow's compiler does not have it; register one with "
  "@graftax.ops_jax.register, or let TensorFlow run it: in the head of a split model, with "
  "SavedModel.split(..., run_head_with='tensorflow'), or between the parts that convert_subgraph converts"
)
_TREES = "decision forests are not lowered; keep this part in TensorFlow, or run the forest with the library ydf"

# The first pattern that matches an op's whole name gives the reason, if the op has no lowering: some patterns
# match a whole family, and other ops of it are lowered.
_REASONS = tuple(
  (re.compile(pattern), reason)
  for pattern, reason in (
    (r"XlaCustomCall(V2)?", "it calls a compiled function of the program that wrote the graph; register a lowering "
      "that calls jax.ffi.ffi_call with the same target"),
    (r"_?Xla(Launch|Compile|Run|Merge).*", "TensorFlow's compiler creates it while "
      "a program runs; convert the function that was compiled"),
    (r"_XlaAotOnlyVarHandleOp|_VarHandlesOp|_ReadVariablesOp|_Arg|_Retval|_DeviceArg|_DeviceRetval|_If|_While",
      "it occurs only in graphs that TensorFlow rewrote for execution; save the function before that"),
    (r"XlaSparse.*|.*TPU.*|.*Tpu.*|Infeed.*|Outfeed.*|Prelinearize.*|.*SparseCore.*|"
      r"(ConvertToCoo|GetMinibatch|ComputeDedup|MergeDedup|SplitDedup).*", _TPU),
    (r"(_?Xla(Send|Recv|HostCompute).*|_(Send|Recv|HostSend|HostRecv)|Send|Recv)", _DEVICES),
    (r"Collective.*|Nccl.*|_Nccl.*|AllToAll|DTensor.*|CopyToMesh.*|Relayout.*", _DEVICES),
    (r"TensorArrayGrad.*|StackV2|Stack(Push|Pop|Close)(V2)?|Stack|CudnnRNNBackprop.*", _GRADIENT),
    (r"(BlockLSTM|LSTMBlockCell|GRUBlockCell).*Grad.*", _GRADIENT),
    (r"(LearnedUnigram|ThreadUnsafeUnigram)CandidateSampler", "it counts classes in the kernel's own memory, which no "
      "checkpoint holds; use UniformCandidateSampler or FixedUnigramCandidateSampler"),
    (r"SparseCross(V2|Hashed)", _HOST),
    (r"BoostedTrees.*|.*TreeEnsemble.*|IsBoostedTrees.*|SimpleML.*", _TREES),
    (r"Quantized.*|_(Mkl)?(Fused)?Quantized.*|Requant.*|QuantizeDown.*", _QUANTIZED),
    (r"_?_Mkl.*|_Fused.*", "TensorFlow's optimizer creates it for one kind of CPU; save the graph without it"),
    (r".*Dataset.*|.*Iterator.*|.*OptionalFromDataset.*", _PIPELINE),
    (r".*(Queue|Barrier|Accumulator).*|.*Reader.*|(Ordered)?Map(Un)?[Ss]tage.*|(Un)?[Ss]tage.*|RecordInput", _QUEUE),
    (r"(EagerPyFunc|PyFunc|PyFuncStateless)", "it calls a Python function of the process that made the graph; register "
      "a lowering that calls it with jax.pure_callback"),
    (r"ComputeAccidentalHits", "the number of hits depends on data, but JAX's shapes are static; call the loss with "
      "remove_accidental_hits=False"),
    (r"(Sparse.*|Ragged.*|.*SparseOutput|DenseToCSR.*|CSR.*|"
      r"GenerateBoundingBoxProposals)", _SHAPE),
    (r"(Ref)?(Enter|Exit|Merge|NextIteration|Switch)|_SwitchN|LoopCond", _CONTROL_FLOW),
    (r"TensorArray(?!.*V3).*", _OLD_ARRAYS),
    (r"Sdca.*|KMC2.*|KmeansPlusPlus.*|NearestNeighbors|NegTrain|Skipgram", _TRAINERS),
    (r"Batch|BatchFunction|Unbatch|UnbatchGrad|MutexV2|MutexLock|ConsumeMutexLock", _SERVERS),
    (r"Debug.*|DumpTensor|CalibrationStatisticsSaver|CustomAggregator|CheckPinned|_?DebugNumericSummary.*", _OBSERVERS),
    (r".*(MemoryCache|SeedGenerator|StatsAggregatorHandle.*|ThreadPoolHandle|IterationCounter)|(Unc|C)ompressElement|"
      r"ComputeBatchSize|GetElementAtIndex|GetOptions|MapDefun|WindowOp", _PIPELINE),
    (r"(Ordered)?Map(Clear|IncompleteSize|Peek|Size)", _QUEUE),
    (r"Rpc.*|DeleteRpc.*|RemoteCall|SyncDevice|WorkerHeartbeat|DistributedSave|GetDeadline|GlobalIterId|"
      r"(StoreMinibatchStatisticsIn|UpdateTaskIdAndGlobalCore).*", _DEVICES),
    (r"_ParallelConcat.*|_ScopedAllocator.*|_HostCast|XlaClusterOutput|MlirPassthroughOp", "it occurs only in graphs "
      "that TensorFlow rewrote for execution; save the function before that"),
    (r"(EmptyTensorMap|TensorMap.*)", "its keys are compared by value, which depends on data; keep the map in Python, "
      "and pass its tensors as arguments"),
    (r"ImmutableConst|LoadAndRemapMatrix|GenerateVocabRemapping|ImportEvent|Timestamp|AudioMicrofrontend|Fingerprint|"
      r"ExtractJpegShape", _HOST),
    (r"(AddMany|Add|TakeMany)Sparse.*TensorsMap", _QUEUE),
    (r"Risc.*", _EXPERIMENTAL),
    (r"[AB]|Abort|Attr\w*|Binary|Unary|Simple(Struct)?|ComplexStruct|MixedStruct|ConstructionFails|CopyOp|DefaultAttrs|"
      r"DevicePlacementOp|DtypeWithDefaultOp|Fact|Five\w+|Float(In|Out)put\w*|Foo[123]|Func(List)?Attr|GraphDefVersion|"
      r"StringListAttr|Int64Output|Int(Attr|Input|Output)\w*|KernelLabel(Required)?|List(In|Out)put|N?(In)?Polymorphic\w*|N(Ints|InT)\w+|"
      r"(Namespace>)?TestStringOutput|None|Old|OpWith\w+|Out(T|Type)\w*|Ref(In|Out)\w*|RequiresOlderGraphVersion|"
      r"Reserved\w+|Resource(Create|Initialized|Using)(Op)?|Restrict|Sleep(Identity)?Op|StubResourceHandleOp|TestAttr|"
      r"Two(Float|Int|Ref)\w+|TypeList\w*", _TENSORFLOW_TESTS),
    (r"(Decode|Encode|Parse|Read|Write|Save|Restore|Serialize|Deserialize|String|Unicode|Regex|StaticRegex|ReduceJoin)"
      r".*|(Fast)?Wordpiece.*|Sentencepiece.*|CaseFoldUTF8|NormalizeUTF8|.*(Summary|Checkpoint|File).*|AsString|Substr|ReduceJoin|.*Join|.*Session.*|.*HashBucket.*|"
      r"InitializeTable.*|LookupTable.*|.*HashTable.*", _HOST),
  )
)  # fmt: skip


def reason_without_lowering(op: str) -> str | None:
  """Returns why `op` cannot be lowered and what to do instead, or None.

  None means that `op` has a lowering, or that TensorFlow itself does not have it: an op of another library, or of a
  newer version of TensorFlow. The option `fallback="tensorflow"` may compile such an op.

  Example:
    >>> reason_without_lowering("CollectiveGatherV2")
    "it exchanges data with other devices; convert one replica's program and use jax.lax.psum and similar functions"
    >>> reason_without_lowering("MyCompanyOp") is None
    True
  """
  if op in supported_ops():
    return None
  reason = next((reason for pattern, reason in _REASONS if pattern.fullmatch(op)), None)
  return _NOT_WRITTEN if reason is None and op in OpSignatures() else reason
