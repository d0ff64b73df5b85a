import struct

import numpy as np
import pytest

from graftax.savedmodel_io.chunked import highway_hash
from graftax.savedmodel_io.chunked.highway_hash import highway_hash_64

# The specification of Riegeli files gives the first 64 bytes of each: two headers with their checksums.
_FIRST_BYTES = bytes.fromhex(
  "83af70d10d884a3f" "0000000000000000" "4000000000000000"
  "91bac23c9287e1a9" "0000000000000000" "e19f13c0e9b1c372" "7300000000000000" "0000000000000000"
)  # fmt: skip


@pytest.mark.parametrize("start, stop", [(8, 24), (32, 64)])
def test_headers_of_the_specification_have_their_checksums(start, stop):
  (stored,) = struct.unpack_from("<Q", _FIRST_BYTES, start - 8)
  assert highway_hash_64(_FIRST_BYTES[start:stop]) == stored


def test_no_bytes_have_the_checksum_of_the_specification():
  (stored,) = struct.unpack_from("<Q", _FIRST_BYTES, 40)
  assert highway_hash_64(b"") == stored


@pytest.mark.parametrize("size", [511, 512, 4 * 512 + 96 + 7])
def test_compiled_updates_are_those_of_python(size, monkeypatch):
  data = np.random.default_rng(size).bytes(size)
  expected = highway_hash_64(data)
  monkeypatch.setattr(highway_hash, "_LEAST_COMPILED_BYTES", 1)
  assert highway_hash_64(data) == expected


def test_without_a_cpu_only_short_data_is_hashed(monkeypatch):
  assert highway_hash.can_hash(1 << 30)
  monkeypatch.setattr(highway_hash, "can_compile", lambda: False)
  assert highway_hash.can_hash(1 << 22) and not highway_hash.can_hash(1 << 30)
