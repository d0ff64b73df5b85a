import pytest

from graftax.savedmodel_io.checkpoint.varint import decode_varint, encode_varint


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**32, 2**63, 2**64 - 1])
def test_an_encoded_integer_decodes_to_itself(value):
  data = encode_varint(value) + b"rest"
  assert decode_varint(data, 0, len(data)) == (value, len(data) - 4)


def test_three_hundred_takes_the_documented_two_bytes():
  assert encode_varint(300) == b"\xac\x02"


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 10, b"\x80" * 9 + b"\x02", b"\x80" * 20])
def test_a_cut_off_or_too_wide_integer_is_an_error(data):
  with pytest.raises(ValueError, match="varint at byte 0"):
    decode_varint(data, 0, len(data))


def test_a_negative_integer_cannot_be_encoded():
  with pytest.raises(ValueError, match="-1"):
    encode_varint(-1)
