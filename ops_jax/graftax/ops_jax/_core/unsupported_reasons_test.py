"""Every op that cannot be lowered has a reason that fits."""

import re

import pytest

from graftax.ops_jax import supported_ops
from graftax.ops_jax._core.unsupported_reasons import reason_without_lowering


@pytest.mark.parametrize(
  ("op", "text"),
  [
    ("XlaCustomCallV2", "ffi_call"),
    ("XlaSend", "other devices"),
    ("XlaRecvTPUEmbeddingActivations", "TPU"),
    ("XlaSparseDenseMatmulWithCsrInput", "TPU"),
    ("_XlaRun", "compiler"),
    ("_Retval", "rewrote"),
    ("BlockLSTMGradV2", "jax.grad"),
    ("MapDataset", "pipeline"),
    ("IteratorGetNext", "pipeline"),
    ("FIFOQueueV2", "session"),
    ("PyFunc", "pure_callback"),
    ("SparseSegmentSumGradV2", "static"),
    ("DecodeJpeg", "host"),
    ("QuantizedConv2D", "float graph"),
    ("LearnedUnigramCandidateSampler", "checkpoint"),
    ("CudnnRNNBackpropV3", "jax.grad"),
    ("SparseCrossV2", "host"),
    ("StringJoin", "host"),
    ("SentencepieceTokenizeOp", "SavedModel.split"),
    ("BoostedTreesPredict", "ydf"),
    ("SimpleMLInferenceOpWithHandle", "ydf"),
    ("IsotonicRegression", "compiler does not have it; .* run_head_with='tensorflow'"),
    ("ComputeAccidentalHits", "remove_accidental_hits=False"),
    ("SobolSample", "compiler does not have it; register"),
  ],
)
def test_the_reason_fits(op, text):
  assert op not in supported_ops()
  assert re.search(text, reason_without_lowering(op))


def test_unknown_ops_have_none():
  assert reason_without_lowering("MyCompanyOp") is None


def test_ops_with_a_lowering_have_none():
  assert {op: reason for op in supported_ops() if (reason := reason_without_lowering(op))} == {}
