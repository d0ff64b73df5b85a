import struct

import pytest

from graftax.savedmodel_io.checkpoint.crc32c import crc32c, mask
from graftax.savedmodel_io.checkpoint.string_tensor import decode_string_tensor
from graftax.savedmodel_io.checkpoint.varint import encode_varint
from graftax.savedmodel_io.errors import DamagedCheckpointError


def _encode(strings: list[bytes]) -> tuple[bytes, int]:
  """The stored bytes and the masked checksum of the entry."""
  crc = crc32c(b"".join(struct.pack("<I", len(string)) for string in strings))
  length_crc = struct.pack("<I", mask(crc))
  text = b"".join(strings)
  data = b"".join(encode_varint(len(string)) for string in strings) + length_crc + text
  return data, mask(crc32c(text, crc32c(length_crc, crc)))


def test_strings_take_the_shape_of_the_tensor():
  data, crc = _encode([b"a", b"", b"b" * 300, b"\x00"])
  array, checksum = decode_string_tensor(data, (2, 2), "t")
  assert checksum == crc
  assert array.tolist() == [[b"a", b""], [b"b" * 300, b"\x00"]]


def test_a_scalar_and_an_empty_tensor_are_decoded():
  data, _ = _encode([b"one"])
  assert decode_string_tensor(data, (), "t")[0][()] == b"one"
  data, _ = _encode([])
  assert decode_string_tensor(data, (0, 3), "t")[0].shape == (0, 3)


def test_another_text_has_another_checksum():
  data, crc = _encode([b"one"])
  strings, checksum = decode_string_tensor(data[:-1] + b"f", (1,), "t")
  assert strings.tolist() == [b"onf"]
  assert checksum != crc


@pytest.mark.parametrize(
  ("data", "shape", "message"),
  [
    (b"ab", (10**12,), "2 bytes cannot hold 1000000000000 strings"),
    (b"\x80\x80", (1,), "string lengths are damaged"),
    (b"\xff\xff\xff\xff\x0f" + bytes(4), (1,), "4294967295 bytes of text do not fill 9"),
    (b"\x01" + bytes(4) + b"a", (1,), "checksum of the string lengths"),
    (b"", (1,), "cannot hold 1"),
    (b"", (0,), "do not fill 0"),
  ],
)
def test_damaged_strings_are_errors(data, shape, message):
  with pytest.raises(DamagedCheckpointError, match=message):
    decode_string_tensor(data, shape, "t")
