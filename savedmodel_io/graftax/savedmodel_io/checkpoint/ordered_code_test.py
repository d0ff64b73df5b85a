import itertools

import pytest

from graftax.savedmodel_io.checkpoint.ordered_code import encode_bytes, encode_signed, encode_unsigned

_SIGNED = sorted(
  {sign * (1 << bits) + delta for bits in range(63) for sign in (1, -1) for delta in (-1, 0, 1)} | {-(2**63), 2**63 - 1}
)


def test_signed_integers_sort_as_their_codes():
  codes = [encode_signed(value) for value in _SIGNED]
  assert codes == sorted(codes)
  assert len(set(codes)) == len(_SIGNED)


@pytest.mark.parametrize(
  ("value", "code"),
  [
    (0, "80"),
    (1, "81"),
    (63, "bf"),
    (64, "c040"),
    (-1, "7f"),
    (-64, "40"),
    (-65, "3fbf"),
    (8191, "dfff"),
    (8192, "e02000"),
  ],
)
def test_small_signed_integers_have_the_documented_codes(value, code):
  assert encode_signed(value).hex() == code


def test_the_widest_signed_integers_take_ten_bytes():
  assert encode_signed(2**63 - 1).hex() == "ffc07fffffffffffffff"
  assert encode_signed(-(2**63)).hex() == "003f8000000000000000"


def test_unsigned_integers_are_length_and_big_endian_bytes():
  assert [encode_unsigned(v).hex() for v in (0, 1, 255, 256)] == ["00", "0101", "01ff", "020100"]


def test_byte_strings_sort_as_their_codes():
  strings = [
    b"".join(parts) for n in range(4) for parts in itertools.product([b"\x00", b"\x01", b"a", b"\xff"], repeat=n)
  ]
  assert sorted(strings, key=encode_bytes) == sorted(strings)


def test_zero_and_ff_bytes_are_escaped():
  assert encode_bytes(b"a\x00b\xff") == b"a\x00\xffb\xff\x00\x00\x01"


@pytest.mark.parametrize(
  ("encode", "value"),
  [(encode_signed, 2**63), (encode_signed, -(2**63) - 1), (encode_unsigned, -1), (encode_unsigned, 2**64)],
)
def test_integers_beyond_64_bits_raise(encode, value):
  with pytest.raises(ValueError, match=str(value)):
    encode(value)
