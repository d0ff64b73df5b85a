"""Safetensors files that are damaged or hostile: each is a typed error, quickly and in little memory."""

import json
import struct

import pytest

from graftax.savedmodel_io import read_safetensors
from graftax.savedmodel_io.errors import ParameterFileError
from graftax.testing.resource_limits import within_limits


def _file(header: object, data: bytes = bytes(8), size: int | None = None) -> bytes:
  text = header if isinstance(header, bytes) else json.dumps(header).encode()
  return struct.pack("<Q", len(text) if size is None else size) + text + data


def _tensor(shape: object = (2,), dtype: object = "F32", offsets: object = (0, 8)) -> dict[str, object]:
  return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


_HOSTILE = {
  "empty": b"",
  "web_page": b"<!DOCTYPE html><html></html>",
  "header_of_an_exabyte": _file({"x": _tensor()}, size=1 << 60),
  "header_of_two_gigabytes": _file({"x": _tensor()}, size=1 << 31),
  "header_is_not_json": _file(b"{" * 100),
  "header_is_deep": _file(b'{"x":' * 200_000),
  "header_is_not_text": _file(b"\xff\xfe{}"),
  "header_is_a_list": _file([]),
  "not_a_tensor": _file({"x": 5}),
  "without_offsets": _file({"x": {"dtype": "F32", "shape": [2]}}),
  "unknown_dtype": _file({"x": _tensor(dtype="F31")}),
  "dtype_without_arrays": _file({"x": _tensor(shape=[8], dtype="F8_E4M3")}),
  "negative_shape": _file({"x": _tensor(shape=[-2])}),
  "shape_of_another_size": _file({"x": _tensor(shape=[3])}),
  "shape_that_overflows": _file({"x": _tensor(shape=[1 << 62, 1 << 62, 4])}),
  "giant_shape": _file({"x": _tensor(shape=[1 << 40])}),
  "offsets_behind_the_end": _file({"x": _tensor(offsets=[0, 1 << 40], shape=[1 << 38])}),
  "offsets_backwards": _file({"x": _tensor(offsets=[8, 0])}),
  "offsets_that_overlap": _file({"x": _tensor(), "y": _tensor()}),
  "data_left_over": _file({"x": _tensor()}, bytes(99)),
  "metadata_of_numbers": _file({"__metadata__": {"a": 1}, "x": _tensor()}),
  "cut_off": _file({"x": _tensor()})[:-1],
}


@pytest.mark.parametrize("case", _HOSTILE)
def test_hostile_safetensors_files_are_refused(tmp_path, case):
  path = tmp_path / "hostile.safetensors"
  path.write_bytes(_HOSTILE[case])
  with within_limits(), pytest.raises(ParameterFileError, match="hostile.safetensors: "):
    read_safetensors(path)
