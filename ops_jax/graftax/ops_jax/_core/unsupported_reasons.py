"""Reasons why ops have no lowering, and what to do instead, for the error that lists such ops."""

import re

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
    (r"(EditDistance|.*SetOperation|SetSize|Sparse.*|Ragged.*|.*SparseOutput|DenseToCSR.*|CSR.*|"
      r"GenerateBoundingBoxProposals|ComputeAccidentalHits)", _SHAPE),
    (r"(Decode|Encode|Parse|Read|Write|Save|Restore|Serialize|Deserialize|String|Unicode|Regex|StaticRegex|ReduceJoin)"
      r".*|(Fast)?Wordpiece.*|Sentencepiece.*|CaseFoldUTF8|NormalizeUTF8|.*(Summary|Checkpoint|File).*|AsString|Substr|ReduceJoin|.*Join|.*Session.*|.*HashBucket.*|"
      r"InitializeTable.*|LookupTable.*|.*HashTable.*", _HOST),
  )
)  # fmt: skip


def reason_without_lowering(op: str) -> str | None:
  """Returns why `op` cannot be lowered and what to do instead, or None.

  None means that `op` has a lowering, or that one just has not been written yet.

  Example:
    >>> reason_without_lowering("CollectiveGatherV2")
    "it exchanges data with other devices; convert one replica's program and use jax.lax.psum and similar functions"
    >>> reason_without_lowering("MyCompanyOp") is None
    True
  """
  if op in supported_ops():
    return None
  return next((reason for pattern, reason in _REASONS if pattern.fullmatch(op)), None)
