"""TensorFlow ops for the host in NumPy: strings, tables, encoded files, in the head and the tail of a split model.

- `bitmaps`: Reads the pixels of BMP images as TensorFlow does: without palettes, and with the fourth channel.
- `control_flow`: Calls, conditionals and loops, step by step: PartitionedCall, If, Case, While, For.
- `examples`: Serialized tf.Example messages: ParseExampleV2, ParseSingleExample, ParseExample.
- `fast_wordpiece`: Pieces of words from a vocabulary in a trie: FastWordpieceTokenizeWithOffsets.
- `files`: Files and bytes: ReadFile, DecodeRaw, DecodeCompressed, DecodeWav.
- `fingerprints`: Hashes of strings: FarmHash's Fingerprint64, SipHash, and TensorFlow's Hash64, which is MurmurHash64A.
- `hashing`: Buckets of strings: StringToHashBucketFast, StringToHashBucketStrong, SparseCrossHashed, Fingerprint.
- `images`: Encoded images, with Pillow: DecodeJpeg, DecodeAndCropJpeg, DecodePng, DecodeBmp, DecodeGif, DecodeImage.
- `normalization`: Normalized text: CaseFoldUTF8, NormalizeUTF8.
- `numeric_text`: Numbers as text and back: AsString, StringToNumber.
- `records`: Numbers and fields in strings: DecodeCSV, DecodePaddedRaw, ParseTensor, SerializeTensor.
- `regex`: Regular expressions with RE2's meaning: RegexReplace, StaticRegexReplace, RegexFullMatch.
- `registry`: The registry of host ops: TensorFlow op name -> Python function on NumPy arrays.
- `scripts`: The script of code points: UnicodeScript.
- `sentencepiece`: Pieces of text by a SentencePiece model: SentencepieceTokenizeOp and others.
- `sequence_examples`: Serialized tf.SequenceExample messages: ParseSequenceExampleV2, ParseSequenceExample and others.
- `string_ngrams`: N-grams of strings: StringNGrams, NgramsStringJoin of TensorFlow Text.
- `strings`: Strings by bytes: StringLower, Substr, StringSplit, StringJoin, Add, StringFormat, base64.
- `tables`: Lookup tables with strings: LookupTableFind, LookupTableSize, LookupTableExport.
- `tensor_lists`: Tensor lists, as lists of arrays, and ragged tensors in variants: TensorListStack,
  RaggedTensorToVariant, others.
- `tokens`: Splits text at whitespace, between scripts and into bytes: ops of TensorFlow Text that need no vocabulary.
- `trimming`: Trims rows of several tensors to one length: RoundRobinTrim, RoundRobinGenerateMasks of TensorFlow Text.
- `unicode`: Unicode: UnicodeDecode, UnicodeDecodeWithOffsets, UnicodeEncode, UnicodeTranscode.
- `values`: Helpers for arrays of strings: dtype object with `bytes` as elements.
- `variables`: Variables of strings: ReadVariableOp, ResourceGather.
- `without_host_form`: Ops of strings, parsing, decoding and TensorFlow Text that the host does not run, and why.
- `wire_format`: Reads the wire format of protocol buffers, for messages whose schema is a few fields.
- `wordpiece`: Pieces of words from a vocabulary in a table: WordpieceTokenizeWithOffsets.
"""

# The modules that register host ops; the others are helpers.
HOST_OPS = (
  "control_flow",
  "examples",
  "fast_wordpiece",
  "files",
  "hashing",
  "images",
  "normalization",
  "numeric_text",
  "records",
  "regex",
  "scripts",
  "sentencepiece",
  "sequence_examples",
  "string_ngrams",
  "strings",
  "tables",
  "tensor_lists",
  "tokens",
  "trimming",
  "unicode",
  "variables",
  "wordpiece",
)
