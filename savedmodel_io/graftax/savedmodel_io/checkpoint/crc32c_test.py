import numpy as np
import pytest

from graftax.savedmodel_io.checkpoint.crc32c import crc32c, mask, masked_crc32c, unmask


def test_the_check_value_of_crc32c_comes_out():
  assert crc32c(b"123456789") == 0xE3069283


def test_a_checksum_can_be_continued():
  assert crc32c(b"6789", crc32c(b"12345")) == crc32c(b"123456789")


def test_arrays_and_bytes_have_the_same_checksum():
  assert crc32c(np.frombuffer(b"123456789", np.uint8)) == crc32c(b"123456789")


@pytest.mark.parametrize("crc", [0, 1, 0xE3069283, 0xFFFFFFFF])
def test_masking_is_undone_by_unmasking(crc):
  assert unmask(mask(crc)) == crc
  assert mask(crc) != crc


def test_masked_checksum_is_the_mask_of_the_checksum():
  assert masked_crc32c(b"123456789") == mask(0xE3069283)
