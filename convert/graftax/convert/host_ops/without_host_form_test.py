"""Every op of strings, parsing and decoding has a host form or a reason."""

import re

import pytest

from graftax.convert.host_ops.registry import host_op_modules
from graftax.convert.host_ops.without_host_form import WITHOUT_HOST_FORM
from graftax.graphdef_ir import OpSignatures
from graftax.ops_jax import lowering

# StringListAttr is an op of TensorFlow's own tests.
_FAMILIES = re.compile(
  "(String(?!ListAttr)|Unicode|Regex|StaticRegex|Decode|Parse|Substr|AsString|ReduceJoin|UnsortedSegmentJoin|EncodeBase64|"
  "ExtractJpegShape|Fingerprint|SerializeTensor)(?!.*Dataset).*"
)
# The ops that `import tensorflow_text` 2.21 registers.
_TEXT = """
  CaseFoldUTF8 ConstrainedSequence FastBertNormalize FastWordpieceTokenizeWithOffsets FindSourceOffsets MaxSpanningTree
  NormalizeUTF8 NormalizeUTF8WithOffsetsMap PhraseTokenize RegexSplitWithOffsets RougeL SentenceFragments
  SentenceFragmentsV2 SentencepieceDetokenizeOp SentencepieceIdToStringOp SentencepieceStringToIdOp
  SentencepieceTokenizeOp SentencepieceTokenizeWithOffsetsOp SentencepieceVocabSizeOp SplitMergeTokenizeWithOffsets
  TFText>BoiseTagsToOffsets TFText>ByteSplitByOffsets TFText>ByteSplitWithOffsets TFText>FastSentencepieceDetokenize
  TFText>FastSentencepieceTokenize TFText>FastWordpieceDetokenize TFText>NgramsStringJoin TFText>OffsetsToBoiseTags
  TFText>PhraseDetokenize TFText>RoundRobinGenerateMasks TFText>RoundRobinTrim TFText>Utf8Binarize
  TFText>WhitespaceTokenizeWithOffsetsV2 TokenizerFromLogits UnicodeScriptTokenizeWithOffsets
  WhitespaceTokenizeWithOffsets WordpieceTokenizeWithOffsets
""".split()
_ON_HOST = host_op_modules()
_OPS = sorted(name for name in OpSignatures() if _FAMILIES.fullmatch(name)) + _TEXT


@pytest.mark.parametrize("op", _OPS)
def test_every_op_has_a_host_form_or_a_reason(op):
  has_form = op in _ON_HOST or lowering(op) is not None
  assert has_form != (op in WITHOUT_HOST_FORM)


def test_reasons_name_ops_that_exist():
  assert set(WITHOUT_HOST_FORM) <= set(_OPS)
