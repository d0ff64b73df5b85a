"""Files and bytes: ReadFile, DecodeRaw, DecodeCompressed, DecodeWav."""

import io
import math
import wave
import zlib

import numpy as np

from graftax.convert.host_ops.registry import host_op
from graftax.convert.host_ops.values import as_strings, map_strings, scalar_string
from graftax.graphdef_ir import UnreadableFileError
from graftax.ops_jax import Context, InvalidInputError, UnsupportedAttrError

__all__ = ["decode_compressed", "decode_raw", "decode_wav", "read_file"]

# The kinds of compression, as the number of bits that zlib takes.
_PIECE_BYTES = 1 << 20
_WINDOW_BITS = {"ZLIB": zlib.MAX_WBITS, "GZIP": zlib.MAX_WBITS | 16}


@host_op("ReadFile")
def read_file(ctx: Context, filename: np.ndarray) -> np.ndarray:
  """Returns the bytes of a file that the model may read.

  Raises:
    InvalidInputError: it cannot be read.
    UnsafeFileError: it is not in the folder of the model, nor in one that the caller allowed.
  """
  path = scalar_string(filename, "ReadFile: filename").decode(errors="surrogateescape")
  what = f"ReadFile node {ctx.node_name!r} (function {ctx.function_name!r})"
  try:
    return as_strings(ctx.folder.read(path, what))
  except (FileNotFoundError, UnreadableFileError) as e:
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
def decode_compressed(ctx: Context, bytes_: np.ndarray, *, compression_type: str = "") -> np.ndarray:
  """Returns strings without their compression by zlib or gzip.

  Raises:
    InvalidInputError: a string is not compressed in that way.
    UnsupportedAttrError: the compression is another one.
    LimitExceededError: a string decompresses to more than the limits of the call allow.
  """
  if not compression_type:
    return bytes_
  if compression_type not in _WINDOW_BITS:
    raise UnsupportedAttrError(f"DecodeCompressed: {compression_type!r}; expected one of {sorted(_WINDOW_BITS)}.")
  try:
    return map_strings(lambda item: _inflated(item, _WINDOW_BITS[compression_type], ctx), bytes_)
  except zlib.error as e:
    raise InvalidInputError(f"DecodeCompressed: a string is not {compression_type} data: {e}.") from e


def _inflated(data: bytes, window_bits: int, ctx: Context) -> bytes:
  where = f"DecodeCompressed node {ctx.node_name!r} (function {ctx.function_name!r})"
  decoder, size, rest = zlib.decompressobj(window_bits), 0, data
  pieces: list[bytes] = []
  while not decoder.eof:
    piece = decoder.decompress(rest, _PIECE_BYTES)
    if not piece and not decoder.eof:
      raise zlib.error("incomplete or truncated stream")
    size += len(piece)
    ctx.budget.check_array((size,), 1, where)
    ctx.budget.spend_decoded_bytes(len(piece), 0 if pieces else len(data), where)
    pieces.append(piece)
    rest = decoder.unconsumed_tail
  return b"".join(pieces)


@host_op("DecodeWav")
def decode_wav(
  ctx: Context, contents: np.ndarray, *, desired_channels: int = -1, desired_samples: int = -1
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the samples of a WAV file of 16 bits, `[samples, channels]` from -1 to 1, and the rate per second, int32.

  Raises:
    InvalidInputError: it is not such a file.
    LimitExceededError: the sizes that the op asks for are larger than the limits of the call allow.
  """
  data = scalar_string(contents, "DecodeWav: contents")
  try:
    with wave.open(io.BytesIO(data)) as file:
      channels, width, rate = file.getnchannels(), file.getsampwidth(), file.getframerate()
      samples = file.readframes(file.getnframes())
    numbers = np.frombuffer(samples, "<i2").reshape(-1, channels) if width == 2 else None
  # ValueError: the last sample is cut off. RuntimeError: a chunk is longer than the file.
  except (wave.Error, EOFError, ValueError, RuntimeError) as e:
    raise InvalidInputError(
      f"DecodeWav: {len(data)} bytes that begin with {data[:8]!r} are not a WAV file: {e}."
    ) from e
  if numbers is None:
    raise InvalidInputError(f"DecodeWav: samples have {8 * width} bits; expected 16.")
  shape = [
    wanted if wanted > 0 else own
    for wanted, own in zip((desired_samples, desired_channels), numbers.shape, strict=True)
  ]
  where = f"DecodeWav node {ctx.node_name!r} (function {ctx.function_name!r})"
  for sizes in (numbers.shape, shape):
    ctx.budget.check_array(sizes, 4, where)
  ctx.budget.spend_decoded_bytes(4 * (numbers.size + math.prod(shape)), len(data), where)
  audio = numbers.astype(np.float32) / np.float32(32768)
  return _resized(audio, desired_channels, desired_samples), np.asarray(rate, np.int32)


def _resized(audio: np.ndarray, channels: int, samples: int) -> np.ndarray:
  """Returns audio with the given sizes, if they are positive: the last channel is repeated, the end filled with 0."""
  audio = audio[:samples] if samples > 0 else audio
  if channels > 0:
    audio = audio[:, np.minimum(np.arange(channels), audio.shape[1] - 1)]
  if samples > 0:
    audio = np.concatenate([audio[:samples], np.zeros((max(samples - len(audio), 0), audio.shape[1]), np.float32)])
  return audio
