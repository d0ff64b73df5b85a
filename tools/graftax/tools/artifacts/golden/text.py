"""Models of TensorFlow Text: preprocessing and tokenizers, with an encoder behind them."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from graftax.tools.artifacts.golden.recorder import Recorder, TensorFlow, TfTensor

__all__ = ["WRITERS"]

_TEXTS: list[str | bytes] = [
  "",
  " ",
  "the cat sat",
  "The CAT, sat!",
  "the dog doesn't want unwanted cats",
  "unaffable wanted runnings ##ing ## dog##",
  "[CLS] the [UNK] dog [SEP]",
  "na\u00efve caf\u00e9 \u00c5ngstr\u00f6m",
  "nai\u0308ve cafe\u0301 A\u030angstro\u0308m",
  "\u732b\u3068\u72ac \u4f60\u597d\u4e16\u754c",
  "\uff26\uff55\uff4c\uff4c \uff57\uff49\uff44\uff54\uff48 \ufb01ne \u2460 \u00bd \u3392",
  "stra\u00dfe STRASSE \u0130stanbul \u03a3\u0391\u03a3",
  "zero\u200bwidth soft\u00adhyphen \ufeffmark",
  "tab\tnew\nline\r\n  spaces \u00a0\u3000\u2003wide",
  "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 emoji \U0001d49c\U00020000",
  "a" * 120,
  "the$cat<sat>^the|cat~",
  "\u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd \u0928\u092e\u0938\u094d\u0924\u0947",
  "\ud55c\uad6d\uc5b4 \u1112\u1161\u11ab\uae00",
  b"bad \xff byte",
  b"cut \xe2\x82",
  b"surrogate \xed\xa0\x80 the",
  b"A\xcc\x81\xff\xcc\x81 \xc0\xafQ \xf4\x90\x80\x80",
  b"nul \x00 the",
]
_WORDS = (
  "[PAD] [UNK] [CLS] [SEP] the cat sat dog want ##ed ##s ##ing un ##want ##aff ##able run ##n ##ning does n ##' ' t , "
  "! ca ##f ##e cafe naive a ##ngstrom ##a ##b s ##t ##r strasse \u732b \u4f60 ## zero ##width fine 1 $ < em ##oji"
).split()
_SENTENCES = [
  "the cat sat on the mat",
  "a dog ran",
  "unwanted cats and wanted dogs",
  "running dogs sat",
  "caf\u00e9 na\u00efve",
]


def _inputs() -> list[bytes]:
  return [text.encode() if isinstance(text, str) else text for text in _TEXTS]


def _record(tf: TensorFlow, recorder: Recorder, name: str, module: Any, function: Any) -> None:
  """Saves a function of texts that returns a dict, and notes what it returns."""
  module.run = tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])(function)
  options = tf.saved_model.SaveOptions(experimental_debug_stripper=True)
  tf.saved_model.save(module, recorder.path(name), {"serving_default": module.run}, options)
  outputs = {key: value.numpy() for key, value in module.run(tf.constant(_inputs())).items()}
  recorder.text(name, {"text": np.array(_inputs())}, outputs)


def _encoded(tf: TensorFlow, module: Any, ids: TfTensor, mask: TfTensor) -> TfTensor:
  """Returns one vector for each row: a layer of attention, and the mean over what is not padding."""
  size = 8

  def weight(key: str, *shape: int) -> TfTensor:
    if not hasattr(module, key):
      value = np.random.default_rng([len(key), *shape]).normal(size=shape).astype(np.float32)
      with tf.init_scope():
        setattr(module, key, tf.Variable(value * shape[0] ** -0.5, name=key))
    return getattr(module, key)

  x = tf.gather(weight("embedding", len(_WORDS) + 60, size), ids)
  x += weight("positions", 64, size)[: tf.shape(ids)[1]]
  query, keys, values = (tf.tensordot(x, weight(key, size, size), 1) for key in ("query", "keys", "values"))
  logits = tf.matmul(query, keys, transpose_b=True) - 1e9 * (1.0 - mask[:, None, :])
  x += tf.matmul(tf.nn.softmax(logits), values)
  return tf.math.divide_no_nan(tf.reduce_sum(x * mask[..., None], 1), tf.reduce_sum(mask, 1, keepdims=True))


def _table(tf: TensorFlow) -> TfTensor:
  keys = tf.constant(_WORDS)
  initializer = tf.lookup.KeyValueTensorInitializer(keys, tf.range(len(_WORDS), dtype=tf.int64))
  return tf.lookup.StaticVocabularyTable(initializer, 1)


def _bert(tf: TensorFlow, recorder: Recorder, name: str, **options: Any) -> None:
  """BERT's preprocessing, with start and end of the text and padding to a length, and an encoder."""
  import tensorflow_text as tf_text

  module = tf.Module()
  module.table = _table(tf)
  tokenizer = tf_text.BertTokenizer(module.table, token_out_type=tf.int64, **options)

  def run(text: TfTensor) -> TfTensor:
    tokens = tokenizer.tokenize(text).merge_dims(1, 2)
    trimmed = tf_text.WaterfallTrimmer(14).trim([tokens])
    combined, types = tf_text.combine_segments(trimmed, 2, 3)
    ids, mask = tf_text.pad_model_inputs(combined, 16)
    types, _ = tf_text.pad_model_inputs(types, 16)
    pooled = _encoded(tf, module, ids, tf.cast(mask, tf.float32))
    return {"ids": ids, "mask": mask, "types": types, "pooled": pooled}

  _record(tf, recorder, name, module, run)


def _bert_cased(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  _bert(tf, recorder, name, lower_case=False, normalization_form="NFC", split_unknown_characters=True)


def _bert_uncased(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  _bert(tf, recorder, name, lower_case=True, max_chars_per_token=5)


def _wordpiece(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  """Pieces of words and their positions, also those of words that are too long."""
  import tensorflow_text as tf_text

  module = tf.Module()
  module.table = _table(tf)
  found = {}

  def run(text: TfTensor) -> TfTensor:
    words = tf.strings.split(text)
    for unknown in ("[UNK]", None):
      tokenizer = tf_text.WordpieceTokenizer(
        module.table, max_bytes_per_word=9, token_out_type=tf.string, unknown_token=unknown
      )
      pieces, starts, ends = tokenizer.tokenize_with_offsets(words)
      key = "with" if unknown else "without"
      found.update({f"{key}_pieces": pieces.flat_values, f"{key}_splits": pieces.values.row_splits})
      found.update({f"{key}_starts": starts.flat_values, f"{key}_ends": ends.flat_values})
    return dict(found)

  _record(tf, recorder, name, module, run)


def _fast_wordpiece(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  """The tokenizer with its vocabulary in a trie, on texts and on words."""
  import tensorflow_text as tf_text

  module = tf.Module()
  whole = tf_text.FastWordpieceTokenizer(_WORDS, max_bytes_per_word=20, token_out_type=tf.int64)
  single = tf_text.FastWordpieceTokenizer(
    _WORDS, no_pretokenization=True, support_detokenization=True, token_out_type=tf.string
  )

  def run(text: TfTensor) -> TfTensor:
    ids, starts, ends = whole.tokenize_with_offsets(text)
    pieces, piece_starts, piece_ends = single.tokenize_with_offsets(tf.strings.split(tf.strings.lower(text)))
    mask = tf.sequence_mask(tf.minimum(ids.row_lengths(), 16), 16, tf.float32)
    return {
      "ids": ids.flat_values,
      "splits": ids.row_splits,
      "starts": starts.flat_values,
      "ends": ends.flat_values,
      "pieces": pieces.flat_values,
      "piece_splits": pieces.values.row_splits,
      "piece_starts": piece_starts.flat_values,
      "piece_ends": piece_ends.flat_values,
      "pooled": _encoded(tf, module, ids.to_tensor(shape=[None, 16]), mask),
    }

  _record(tf, recorder, name, module, run)


def _sentencepiece_model(**options: Any) -> bytes:
  import sentencepiece

  file = io.BytesIO()
  sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter(_SENTENCES * 3), model_writer=file, vocab_size=40, hard_vocab_limit=False,
    normalization_rule_name="identity", minloglevel=2, **options,
  )  # fmt: skip
  return file.getvalue()


def _sentencepiece(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  """An encoder of SentencePiece's ids, with the pieces, their positions, and the text that ids spell."""
  import tensorflow_text as tf_text

  module = tf.Module()
  module.tokenizer = tf_text.SentencepieceTokenizer(_sentencepiece_model(), add_bos=True, add_eos=True)
  module.pieces = tf_text.SentencepieceTokenizer(_sentencepiece_model(model_type="bpe"), out_type=tf.string)

  def run(text: TfTensor) -> TfTensor:
    ids = module.tokenizer.tokenize(text)
    pieces, starts, ends = module.pieces.tokenize_with_offsets(text)
    mask = tf.sequence_mask(tf.minimum(ids.row_lengths(), 24), 24, tf.float32)
    return {
      "ids": ids.flat_values,
      "splits": ids.row_splits,
      "pieces": pieces.flat_values,
      "starts": starts.flat_values,
      "ends": ends.flat_values,
      "again": module.tokenizer.detokenize(ids),
      "size": module.tokenizer.vocab_size(),
      "names": module.tokenizer.id_to_string(tf.range(5)),
      "numbers": module.tokenizer.string_to_id(tf.constant(["<s>", "\u2581the", "?"])),
      "pooled": _encoded(tf, module, ids.to_tensor(shape=[None, 24]), mask),
    }

  _record(tf, recorder, name, module, run)


def _normalized(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  import tensorflow_text as tf_text

  def run(text: TfTensor) -> TfTensor:
    forms = {form.lower(): tf_text.normalize_utf8(text, form) for form in ("NFC", "NFD", "NFKC", "NFKD")}
    tokens, starts, ends = tf_text.regex_split_with_offsets(text, r"\s+|[[:punct:]]", "[[:punct:]]")
    split = {"tokens": tokens.flat_values, "starts": starts.flat_values, "ends": ends.flat_values}
    return {"folded": tf_text.case_fold_utf8(text), "splits": tokens.row_splits, **forms, **split}

  _record(tf, recorder, name, tf.Module(), run)


def _bert_pair(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  """BERT's preprocessing of two segments, which share the length, and an encoder."""
  import tensorflow_text as tf_text

  module = tf.Module()
  module.table = _table(tf)
  tokenizer = tf_text.BertTokenizer(module.table, token_out_type=tf.int64, lower_case=True)

  def run(text: TfTensor) -> TfTensor:
    segments = [tokenizer.tokenize(x).merge_dims(1, 2) for x in (text, tf.reverse(text, [0]))]
    masks = tf_text.RoundRobinTrimmer(max_seq_length=9).generate_mask(segments)
    trimmed = tf_text.RoundRobinTrimmer(max_seq_length=9).trim(segments)
    ids, types = tf_text.combine_segments(trimmed, start_of_sequence_id=2, end_of_segment_id=3)
    words, mask = tf_text.pad_model_inputs(ids, 12)
    types, _ = tf_text.pad_model_inputs(types, 12)
    encoded = _encoded(tf, module, words + types, tf.cast(mask, tf.float32))
    kept = {f"kept_{i}": tf.cast(mask.flat_values, tf.int32) for i, mask in enumerate(masks)}
    return {"encoded": encoded, "words": words, "types": types, **kept}

  _record(tf, recorder, name, module, run)


def _splitters(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  """Splitters that need no vocabulary: whitespace, scripts, bytes."""
  import tensorflow_text as tf_text

  def run(text: TfTensor) -> TfTensor:
    found = {}
    for key, splitter in (
      ("space", tf_text.WhitespaceTokenizer()),
      ("script", tf_text.UnicodeScriptTokenizer()),
      ("script_spaces", tf_text.UnicodeScriptTokenizer(keep_whitespace=True)),
      ("bytes", tf_text.ByteSplitter()),
    ):
      tokens, starts, ends = splitter.split_with_offsets(text)
      found[key], found[f"{key}_splits"] = tokens.flat_values, tokens.row_splits
      found[f"{key}_starts"], found[f"{key}_ends"] = starts.flat_values, ends.flat_values
    halves = tf.strings.length(text)[:, None] // 2
    parts = tf_text.ByteSplitter().split_by_offsets(
      text, tf.concat([halves * 0, halves], 1), tf.concat([halves] * 2, 1)
    )
    return {**found, "parts": parts.flat_values}

  _record(tf, recorder, name, tf.Module(), run)


WRITERS = {
  "text_bert_pair": _bert_pair,
  "text_splitters": _splitters,
  "text_bert_cased": _bert_cased,
  "text_bert_uncased": _bert_uncased,
  "text_wordpiece": _wordpiece,
  "text_fast_wordpiece": _fast_wordpiece,
  "text_sentencepiece": _sentencepiece,
  "text_normalized": _normalized,
}
