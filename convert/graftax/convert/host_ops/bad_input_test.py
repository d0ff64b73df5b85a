"""What the host cannot process: the error names the value and what would do."""

import io
import types

import numpy as np
import pytest

from graftax.convert.host_ops import fast_wordpiece
from graftax.convert.host_ops.fast_wordpiece import fast_wordpiece_tokenize_with_offsets
from graftax.convert.host_ops.files import decode_wav
from graftax.convert.host_ops.images import decode_image
from graftax.convert.host_ops.normalization import case_fold_utf8, normalize_utf8
from graftax.convert.host_ops.numeric_text import string_to_number
from graftax.convert.host_ops.regex import regex_split_with_offsets
from graftax.convert.host_ops.sentencepiece import (
  sentencepiece_detokenize_op,
  sentencepiece_id_to_string_op,
  sentencepiece_op,
  sentencepiece_tokenize_op,
  sentencepiece_vocab_size_op,
)
from graftax.convert.host_ops.strings import substr
from graftax.convert.host_ops.tables import lookup_table_find
from graftax.convert.host_ops.tensor_lists import (
  TensorList,
  tensor_list_gather,
  tensor_list_scatter_v2,
  tensor_list_set_item,
  tensor_list_stack,
)
from graftax.convert.host_ops.tokens import (
  byte_split_by_offsets,
  unicode_script_tokenize_with_offsets,
  whitespace_tokenize_with_offsets,
)
from graftax.convert.host_ops.trimming import round_robin_generate_masks, round_robin_trim
from graftax.convert.host_ops.unicode import unicode_decode
from graftax.convert.host_ops.values import as_strings, string_array
from graftax.convert.host_ops.wordpiece import wordpiece_tokenize_with_offsets
from graftax.convert.program import StringTable
from graftax.convert.tables.graph_tables import table_capture
from graftax.graphdef_ir import Budget, DType, GraftaxError, LibraryNotFoundError, LimitExceededError, Limits
from graftax.ops_jax import NO_BUDGET, InvalidInputError
from graftax.testing.resource_limits import within_limits

_CTX = types.SimpleNamespace(budget=Budget(), node_name="x", function_name="f")
_LIST = TensorList((as_strings(b"a"), as_strings(b"b")), ())
_SCALAR_SHAPE = np.zeros(0, np.int32)
_TEXT = string_array([b"bad \xff text"])
_NOT_KNOWN_YET = string_array(["\U000105ff".encode(), b"a\xe0\xa2\x97"])


@pytest.mark.parametrize(
  ("call", "message"),
  [
    (
      lambda: unicode_decode(_TEXT, input_encoding="UTF-8", errors="strict"),
      r"malformed text in b'bad \\xff text' at byte 4",
    ),
    (lambda: decode_image(_CTX, as_strings(b"GIMP image")), r"b'GIMP im"),
    (lambda: decode_wav(_CTX, as_strings(b"OggS\0\0\0\0")), r"8 bytes that begin with b'OggS.* are not a WAV file"),
    (lambda: string_to_number(_TEXT, out_type=np.dtype(np.float32)), r"b'bad \\xff text' is not a number"),
    (lambda: normalize_utf8(_TEXT, normalization_form=b"NFX"), r"form 'NFX'; expected one of \['NFC', 'NFD'"),
    (
      lambda: regex_split_with_offsets(_TEXT, as_strings(b"x*"), as_strings(b"")),
      r"b'x\*' matches nothing in b'bad \\xff text'",
    ),
    (
      lambda: fast_wordpiece_tokenize_with_offsets(_TEXT, np.frombuffer(b"\xff" * 40, np.uint8)),
      r"its model of 40 bytes cannot be read",
    ),
    (
      lambda: tensor_list_gather(_CTX, _LIST, np.array([1, -1]), _SCALAR_SHAPE, element_dtype=DType.STRING),
      "TensorListGather: index -1 is out of range for 2 items",
    ),
    (
      lambda: tensor_list_scatter_v2(_CTX, _TEXT, np.array([-1]), _SCALAR_SHAPE, np.asarray(2)),
      "TensorListScatterV2: index -1 is out of range for 2 items",
    ),
    (
      lambda: tensor_list_set_item(_CTX, _LIST, np.asarray(2), as_strings(b"c")),
      "TensorListSetItem: index 2 is out of range for 2 items",
    ),
    (
      lambda: tensor_list_stack(_CTX, _LIST, _SCALAR_SHAPE, element_dtype=DType.STRING, num_elements=3),
      "the list has 2 items; expected 3",
    ),
  ],
)
def test_bad_input_is_named(call, message):
  with pytest.raises(GraftaxError, match=message):
    call()


_POINTS = np.full(1 << 14, 97, np.int32)
_SPLITS = np.array([0, 1 << 14])
_LONG = string_array([b"a" * 1000])
_ZEROS = np.zeros(100, np.int32)
_MANY = 1 << 21


def _split_by(splits, budget=NO_BUDGET):
  return byte_split_by_offsets(_LONG, _ZEROS, _ZEROS + 1000, splits, budget=budget)


@pytest.mark.parametrize("splits", [[], [1, 100], [0, 50], [0, 1 << 40], [0, 100, 0, 100], [0, -1, 100]])
@pytest.mark.parametrize(
  "call",
  [
    lambda splits: whitespace_tokenize_with_offsets(_POINTS[:100], splits),
    lambda splits: unicode_script_tokenize_with_offsets(_POINTS[:100], splits),
    _split_by,
    lambda splits: round_robin_trim(np.asarray(5), [_POINTS[:100]], [splits]),
    lambda splits: round_robin_generate_masks(np.asarray(5), [_POINTS[:100]], [splits]),
  ],
)
def test_row_splits_that_do_not_divide_the_values_are_refused(call, splits):
  with within_limits(memory_mib=50), pytest.raises(InvalidInputError, match="do not divide 100 values"):
    call(np.array(splits, np.int64))


@pytest.mark.parametrize(
  ("call", "op"),
  [
    (lambda budget: whitespace_tokenize_with_offsets(_POINTS, _SPLITS, budget=budget), "WhitespaceTokenize"),
    (lambda budget: unicode_script_tokenize_with_offsets(_POINTS, _SPLITS, budget=budget), "UnicodeScriptTokenize"),
    (lambda budget: _split_by(np.array([0, 100]), budget), "ByteSplitByOffsets"),
    (lambda budget: substr(as_strings(b"text"), np.zeros(1 << 14, np.int32), np.int32(1), budget=budget), "Substr"),
    (
      lambda budget: lookup_table_find(
        StringTable("a table", "t", string_array([b"a"]), string_array([b"b"])), _POINTS, as_strings(b""), budget=budget
      ),
      "LookupTableFind",
    ),
  ],
)
def test_what_numbers_ask_for_is_refused_before_it_is_made(call, op):
  with pytest.raises(LimitExceededError, match=f"{op}.*the limit text_bytes is 65536"):
    call(Budget(Limits(text_bytes=1 << 16)))


def test_values_of_a_table_that_many_keys_repeat_are_refused_before_they_are_repeated():
  table = StringTable("a table", "t", string_array([b"a"]), np.broadcast_to(np.float32(0), (1, 1 << 20)))
  with within_limits(memory_mib=100), pytest.raises(LimitExceededError, match="LookupTableFind.*the limit array_bytes"):
    lookup_table_find(table, string_array([b"a"] * 1000), np.float32(0), budget=Budget())


@pytest.mark.parametrize(
  ("keys", "values", "asked", "expected"),
  [
    (
      np.broadcast_to(as_strings(b"a"), _MANY),
      np.broadcast_to(np.int64(5), _MANY),
      string_array([b"a", b"b"]),
      [5, -1],
    ),
    (np.arange(_MANY)[::-1], np.broadcast_to(as_strings(b"v"), _MANY), np.array([_MANY, 0]), [b"", b"v"]),
    (np.zeros(0, np.int64), string_array([]), np.array([0]), [b""]),
  ],
)
def test_tables_that_repeat_or_count_take_no_more_memory_than_their_arrays(keys, values, asked, expected):
  table, default = (
    StringTable("a table", "t", keys, values),
    as_strings(b"") if values.dtype == object else np.int64(-1),
  )
  with within_limits(memory_mib=100):
    assert lookup_table_find(table, asked, default).tolist() == expected


def test_a_trie_that_refers_to_units_beyond_its_end_is_damaged(monkeypatch):
  trie = [0] * 128
  trie[ord("a")] = 500 << 10 | 0x100 | ord("a")  # a piece, whose number is at 500 ^ ord("a")
  model = fast_wordpiece._Model(trie, 0, 100, b"##", b"[UNK]", 0, (), False)
  monkeypatch.setattr(fast_wordpiece, "_read_model", lambda data: model)
  with pytest.raises(GraftaxError, match="the trie of 128 units refers to a unit beyond its end"):
    fast_wordpiece_tokenize_with_offsets(string_array([b"a"]), np.zeros(0, np.uint8))


def test_a_character_that_python_does_not_know_is_refused_only_if_its_normal_form_is_unknown():
  assert normalize_utf8(_NOT_KNOWN_YET[:1], normalization_form=b"NFKC").tolist() == _NOT_KNOWN_YET[:1].tolist()
  with pytest.raises(GraftaxError, match=r"U\+0897, which is not in Unicode 1[45]"):
    case_fold_utf8(_NOT_KNOWN_YET)


def test_models_of_sentencepiece_that_cannot_be_read_and_sampling_are_refused():
  pytest.importorskip("sentencepiece")
  with pytest.raises(GraftaxError, match="its model of 4 bytes cannot be read"):
    sentencepiece_vocab_size_op(sentencepiece_op(model=b"junk"))
  no, one = np.asarray(False), np.asarray(1.0, np.float32)
  with pytest.raises(GraftaxError, match="nbest_size=-1 .* expected the best pieces"):
    sentencepiece_tokenize_op(
      sentencepiece_op(model=b"junk"), _TEXT, np.asarray(-1), one, no, no, no, out_type=np.dtype(np.int32)
    )


def test_a_table_has_as_many_values_as_keys():
  keys = np.array([b"a", b"b"], object)
  for values in (np.zeros(0, np.int64), np.zeros(3, np.int64), np.int64(1)):
    with pytest.raises(GraftaxError, match=r"table 't': keys of shape \(2,\) .*expected as many keys as values"):
      table_capture("t", keys, np.asarray(values))


def test_a_trie_that_leads_in_a_circle_is_walked_for_a_limited_time(monkeypatch):
  # Unit 1 is the piece b"a", unit 5 leads to itself, so the search for each of the pieces reaches the end of the word.
  trie = [0] * 128
  trie[0], trie[1], trie[5] = 96 << 10, 97 | 0x100 | 101 << 10, 97 | 97 << 10
  trie[100] = 1 << 31 | 1 << 8
  model = fast_wordpiece._Model(trie, 0, 1 << 30, b"##", b"[UNK]", 0, (), False)
  monkeypatch.setattr(fast_wordpiece, "_read_model", lambda data: model)
  few = Budget(Limits(text_bytes=1 << 16))
  pieces = fast_wordpiece_tokenize_with_offsets(string_array([b"a" * 9]), np.zeros(0, np.uint8), budget=few)
  assert pieces[1].tolist() == [1] * 9
  with pytest.raises(LimitExceededError, match="FastWordpieceTokenizeWithOffsets needs .* bytes of strings"):
    fast_wordpiece_tokenize_with_offsets(string_array([b"a" * 500]), np.zeros(0, np.uint8), budget=few)


def test_pieces_that_are_looked_up_in_a_vocabulary_are_counted():
  words, few = string_array([b"a" * 400]), Budget(Limits(text_bytes=1 << 15))
  attrs = {"suffix_indicator": b"", "max_bytes_per_word": 1000, "use_unknown_token": True, "unknown_token": b"[UNK]"}
  short, long = (
    StringTable("a table", "t", string_array(keys), np.arange(len(keys))) for keys in ([b"a"], [b"a", b"b" * 400])
  )
  assert len(wordpiece_tokenize_with_offsets(words, short, budget=few, **attrs)[0]) == 400
  with pytest.raises(LimitExceededError, match="WordpieceTokenizeWithOffsets needs .* bytes of strings"):
    wordpiece_tokenize_with_offsets(words, long, budget=few, **attrs)


def test_honest_texts_of_a_tokenizer_are_not_taken_for_those_of_long_rules():
  sentencepiece = pytest.importorskip("sentencepiece")
  file = io.BytesIO()
  sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter(["hello world", "this is a test"] * 9),
    model_writer=file,
    vocab_size=17,
    normalization_rule_name="nmt_nfkc",
    minloglevel=2,
  )
  model, no, one = sentencepiece_op(model=file.getvalue()), np.asarray(False), np.asarray(1.0, np.float32)

  def tokenized(texts, budget):
    more = {"out_type": np.dtype(np.int32), "budget": budget}
    return sentencepiece_tokenize_op(model, string_array(texts), np.asarray(0), one, no, no, no, **more)

  few = Budget(Limits(text_bytes=1 << 16))
  # The longest rule of nmt_nfkc makes 33 bytes of one character.
  values, splits = tokenized([b"hello test " * 100] * 20, few)
  assert len(set(np.diff(splits).tolist())) == 1 and len(values) > 4000
  texts = sentencepiece_detokenize_op(model, values, splits, no, no, no, budget=few)
  assert texts.tolist() == [(b"hello test " * 100)[:-1]] * 20
  with pytest.raises(LimitExceededError, match="one rule of 33 bytes"):
    tokenized(["\ufdfa".encode() * 1000], few)
  with pytest.raises(LimitExceededError, match="SentencepieceDetokenizeOp, one piece of"):
    sentencepiece_detokenize_op(model, values, np.array([0, len(values)]), no, no, no, budget=few)
  with pytest.raises(InvalidInputError, match="do not divide"):
    sentencepiece_detokenize_op(model, values, np.array([0, 1]), no, no, no, budget=few)
  with pytest.raises(LimitExceededError, match="SentencepieceIdToStringOp"):
    sentencepiece_id_to_string_op(model, np.repeat(values, 9), budget=few)


def test_versions_of_sentencepiece_that_a_model_can_crash_are_refused(monkeypatch):
  sentencepiece = pytest.importorskip("sentencepiece")
  monkeypatch.setattr(sentencepiece, "__version__", "0.2.1")
  with pytest.raises(LibraryNotFoundError, match=r"needs sentencepiece 0\.2\.2 or later; 0\.2\.1 is installed"):
    sentencepiece_vocab_size_op(sentencepiece_op(model=b"another"))
