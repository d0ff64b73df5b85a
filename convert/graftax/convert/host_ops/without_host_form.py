"""Ops of strings, parsing, decoding and TensorFlow Text that the host does not run, and why.

`without_host_form_test.py` checks that every such op of TensorFlow has a host form or is listed here.
"""

__all__ = ["WITHOUT_HOST_FORM"]

_TFLITE = "its model is a table that TensorFlow Text compiles in a format of its own"
_MODEL = "it runs a compiled model of TensorFlow Text"
_METRIC = "it is a metric, or an algorithm for training data, that models do not contain"

WITHOUT_HOST_FORM: dict[str, str] = {
  "DecodeJSONExample": "it converts JSON to tf.Example; pass serialized examples",
  "DecodeJxl": "Pillow has no decoder of JPEG XL",
  "DecodeProtoV2": "the description of its message is in a file or in the program that made the graph",
  "DecodeWebP": "WebP is not among the formats that heads decode; pass the pixels",
  "ConstrainedSequence": _METRIC,
  "FastBertNormalize": _TFLITE,
  "FindSourceOffsets": "its map of positions is a variant that only NormalizeUTF8WithOffsetsMap makes",
  "MaxSpanningTree": _METRIC,
  "NormalizeUTF8WithOffsetsMap": "its map of positions is a variant; NormalizeUTF8 is implemented",
  "PhraseTokenize": _TFLITE,
  "RougeL": _METRIC,
  "SentenceFragments": "its rules for the ends of sentences are not implemented",
  "SentenceFragmentsV2": "its rules for the ends of sentences are not implemented",
  "SplitMergeTokenizeWithOffsets": "its labels come from a model; split the text in Python",
  "TFText>BoiseTagsToOffsets": _METRIC,
  "TFText>FastSentencepieceDetokenize": _TFLITE,
  "TFText>FastSentencepieceTokenize": _TFLITE,
  "TFText>FastWordpieceDetokenize": _TFLITE,
  "TFText>OffsetsToBoiseTags": _METRIC,
  "TFText>PhraseDetokenize": _TFLITE,
  "TFText>Utf8Binarize": "its bits of characters are not implemented",
  "TokenizerFromLogits": _MODEL,
}
