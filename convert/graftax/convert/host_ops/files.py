"""Files and bytes: ReadFile, DecodeRaw, DecodeCompressed, DecodeWav."""

import io
import wave
import zlib
from pathlib import Path

import numpy as np

from graftax.convert.host_ops.registry import host_op
from graftax.convert.host_ops.values import as_strings, map_strings, scalar_string
from graftax.ops_jax import InvalidInputError, UnsupportedAttrError

__all__ = ["decode_compressed", "decode_raw", "decode_wav", "read_file"]

# The kinds of compression, as the number of bits that zlib takes.
_WINDOW_BITS = {"ZLIB": zlib.MAX_WBITS, "GZIP": zlib.MAX_WBITS | 16}


@host_op("ReadFile")
def read_file(filename: np.ndarray) -> np.ndarray:
  """Returns the bytes of a file.

  Raises:
    InvalidInputError: it cannot be read.
  """
  path = scalar_string(filename, "ReadFile: filename").decode(errors="surrogateescape")
  try:
    return as_strings(Path(path).read_bytes())
  except (OSError, ValueError) as e:
    raise InvalidInputError(f"ReadFile: {path!r} cannot be read: {e}") from e


@host_op("DecodeRaw")
def decode_raw(bytes_: np.ndarray, *, out_type: np.dtype, little_endian: bool = True) -> np.ndarray:
  """Returns the numbers that strings of one length hold, `[*shape, numbers]`.

  Raises:
    InvalidInputError: the strings differ in length, or their length is not a multiple of the size of a number.
  """
  lengths = {len(item) for item in bytes_.reshape(-1).tolist()}
  if len(lengths) > 1 or any(length % out_type.itemsize for length in lengths):
    raise InvalidInputError(
      f"DecodeRaw: strings of {sorted(lengths)[:5]} bytes; expected one length, a multiple of {out_type.itemsize}."
    )
  stored = out_type if little_endian or out_type.itemsize == 1 else out_type.newbyteorder(">")
  numbers = np.frombuffer(b"".join(bytes_.reshape(-1).tolist()), stored).astype(out_type)
  return numbers.reshape(*bytes_.shape, max(lengths, default=0) // out_type.itemsize)


@host_op("DecodeCompressed")
def decode_compressed(bytes_: np.ndarray, *, compression_type: str = "") -> np.ndarray:
  """Returns strings without their compression by zlib or gzip.

  Raises:
    InvalidInputError: a string is not compressed in that way.
    UnsupportedAttrError: the compression is another one.
  """
  if not compression_type:
    return bytes_
  if compression_type not in _WINDOW_BITS:
    raise UnsupportedAttrError(f"DecodeCompressed: {compression_type!r}; expected one of {sorted(_WINDOW_BITS)}.")
  try:
    return map_strings(lambda item: zlib.decompress(item, _WINDOW_BITS[compression_type]), bytes_)
  except zlib.error as e:
    raise InvalidInputError(f"DecodeCompressed: a string is not {compression_type} data: {e}.") from e


@host_op("DecodeWav")
def decode_wav(
  contents: np.ndarray, *, desired_channels: int = -1, desired_samples: int = -1
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the samples of a WAV file of 16 bits, `[samples, channels]` from -1 to 1, and the rate per second, int32.

  Raises:
    InvalidInputError: it is not such a file.
  """
  data = scalar_string(contents, "DecodeWav: contents")
  try:
    with wave.open(io.BytesIO(data)) as file:
      channels, width, rate = file.getnchannels(), file.getsampwidth(), file.getframerate()
      samples = file.readframes(file.getnframes())
  except (wave.Error, EOFError) as e:
    raise InvalidInputError(
      f"DecodeWav: {len(data)} bytes that begin with {data[:8]!r} are not a WAV file: {e}."
    ) from e
  if width != 2:
    raise InvalidInputError(f"DecodeWav: samples have {8 * width} bits; expected 16.")
  audio = np.frombuffer(samples, "<i2").reshape(-1, channels).astype(np.float32) / np.float32(32768)
  return _resized(audio, desired_channels, desired_samples), np.asarray(rate, np.int32)


def _resized(audio: np.ndarray, channels: int, samples: int) -> np.ndarray:
  """Returns audio with the given sizes, if they are positive: the last channel is repeated, the end filled with 0."""
  if channels > 0:
    audio = audio[:, np.minimum(np.arange(channels), audio.shape[1] - 1)]
  if samples > 0:
    audio = np.concatenate([audio[:samples], np.zeros((max(samples - len(audio), 0), audio.shape[1]), np.float32)])
  return audio
