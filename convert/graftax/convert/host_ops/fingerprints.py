"""Hashes of strings: FarmHash's Fingerprint64, SipHash, and TensorFlow's Hash64, which is MurmurHash64A.

Each hash is computed for all strings of one length at once, in NumPy's uint64, whose products wrap around.
"""

from collections.abc import Callable, Sequence

import numpy as np

__all__ = ["fingerprint_cat64", "fingerprint64", "murmur_hash64", "sip_hash64"]

_K0, _K1, _K2 = np.uint64(0xC3A5C85C97CB3127), np.uint64(0xB492B66FBE98F273), np.uint64(0x9AE16A3B2F90404F)
_MURMUR = np.uint64(0xC6A4A7935BD1E995)
_Words = np.ndarray


def fingerprint64(strings: Sequence[bytes]) -> np.ndarray:
  """Returns FarmHash's 64-bit fingerprint of each string, uint64."""
  return _by_length(strings, _farm_hash)


def sip_hash64(strings: Sequence[bytes], key: tuple[int, int]) -> np.ndarray:
  """Returns SipHash-2-4 of each string under a key of two 64-bit words, uint64."""
  return _by_length(strings, lambda data: _sip_hash(data, key))


def murmur_hash64(strings: Sequence[bytes], seed: int = 0xDECAFCAFFE) -> np.ndarray:
  """Returns TensorFlow's `Hash64` of each string, uint64: MurmurHash64A."""
  return _by_length(strings, lambda data: _murmur_hash(data, seed))


def fingerprint_cat64(first: np.ndarray, second: np.ndarray) -> np.ndarray:
  """Returns the fingerprint of two fingerprints, as TensorFlow's `FingerprintCat64` combines them."""
  result = first ^ _MURMUR ^ (_shift_mix(second * _MURMUR) * _MURMUR)
  return _shift_mix(_shift_mix(result * _MURMUR) * _MURMUR)


def _by_length(strings: Sequence[bytes], function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
  """Returns the hashes of strings; `function` takes the bytes of strings of one length, `[n, length]`."""
  hashes = np.zeros(len(strings), np.uint64)
  positions: dict[int, list[int]] = {}
  for position, item in enumerate(strings):
    positions.setdefault(len(item), []).append(position)
  for length, where in positions.items():
    data = np.frombuffer(b"".join(strings[i] for i in where), np.uint8).reshape(len(where), length)
    hashes[where] = function(data)
  return hashes


def _fetch64(data: np.ndarray, start: int) -> _Words:
  return np.ascontiguousarray(data[:, start : start + 8]).view("<u8")[:, 0]


def _fetch32(data: np.ndarray, start: int) -> _Words:
  return np.ascontiguousarray(data[:, start : start + 4]).view("<u4")[:, 0].astype(np.uint64)


def _rotate(words: _Words, shift: int) -> _Words:
  """Returns words rotated to the right."""
  return (words >> np.uint64(shift)) | (words << np.uint64(64 - shift))


def _shift_mix(words: _Words) -> _Words:
  return words ^ (words >> np.uint64(47))


def _hash_pair(u: _Words, v: _Words, mul: _Words) -> _Words:
  a = _shift_mix((u ^ v) * mul)
  return _shift_mix((v ^ a) * mul) * mul


def _farm_hash(data: np.ndarray) -> _Words:
  length = data.shape[1]
  # An array, since products of NumPy's scalars warn if they wrap around.
  mul = np.full(len(data), (int(_K2) + 2 * length) % 2**64, np.uint64)
  if length > 64:
    return _farm_hash_long(data)
  if length > 32:
    return _farm_hash_33_to_64(data, mul)
  if length > 16:
    return _hash_pair(*_farm_halves(data, mul)[:2], mul)
  if length >= 8:
    a, b = _fetch64(data, 0) + _K2, _fetch64(data, length - 8)
    return _hash_pair(_rotate(b, 37) * mul + a, (_rotate(a, 25) + b) * mul, mul)
  if length >= 4:
    return _hash_pair(np.uint64(length) + (_fetch32(data, 0) << np.uint64(3)), _fetch32(data, length - 4), mul)
  if length:
    first, middle, last = (data[:, i].astype(np.uint64) for i in (0, length >> 1, length - 1))
    y, z = first + (middle << np.uint64(8)), np.uint64(length) + (last << np.uint64(2))
    return _shift_mix(y * _K2 ^ z * _K0) * _K2
  return np.full(len(data), _K2)


def _farm_halves(data: np.ndarray, mul: _Words) -> tuple[_Words, _Words, _Words]:
  """Returns the two words that begin the hashes of 17 to 64 bytes, and the product of the first 8 bytes."""
  length = data.shape[1]
  factor = _K1 if length <= 32 else _K2
  a, b = _fetch64(data, 0) * factor, _fetch64(data, 8)
  c, d = _fetch64(data, length - 8) * mul, _fetch64(data, length - 16) * _K2
  return _rotate(a + b, 43) + _rotate(c, 30) + d, a + _rotate(b + _K2, 18) + c, a


def _farm_hash_33_to_64(data: np.ndarray, mul: _Words) -> _Words:
  length = data.shape[1]
  y, other, a = _farm_halves(data, mul)
  z = _hash_pair(y, other, mul)
  e, f = _fetch64(data, 16) * mul, _fetch64(data, 24)
  g, h = (y + _fetch64(data, length - 32)) * mul, (z + _fetch64(data, length - 24)) * mul
  return _hash_pair(_rotate(e + f, 43) + _rotate(g, 30) + h, e + _rotate(f + a, 18) + g, mul)


def _weak_hash(data: np.ndarray, start: int, a: _Words, b: _Words) -> tuple[_Words, _Words]:
  w, x, y, z = (_fetch64(data, start + 8 * i) for i in range(4))
  a = a + w
  b = _rotate(b + a + z, 21)
  both = a + x + y
  return both + z, b + _rotate(both, 44) + a


def _farm_hash_long(data: np.ndarray) -> _Words:
  count, length = data.shape
  seed = 81
  x = np.full(count, seed * int(_K2) % 2**64, np.uint64) + _fetch64(data, 0)
  y = np.full(count, (seed * int(_K1) + 113) % 2**64, np.uint64)
  z = _shift_mix(y * _K2 + np.uint64(113)) * _K2
  v = w = (np.zeros(count, np.uint64), np.zeros(count, np.uint64))
  remainder = (length - 1) & 63

  def round_(start: int, mul: _Words, factor: int) -> None:
    nonlocal x, y, z, v, w
    x = _rotate(x + y + v[0] + _fetch64(data, start + 8), 37) * mul
    y = _rotate(y + v[1] + _fetch64(data, start + 48), 42) * mul
    x = x ^ (w[1] * np.uint64(factor))
    y = y + v[0] * np.uint64(factor) + _fetch64(data, start + 40)
    z = _rotate(z + w[0], 33) * mul
    v = _weak_hash(data, start, v[1] * mul, x + w[0])
    w = _weak_hash(data, start + 32, z + w[1], y + _fetch64(data, start + 16))
    z, x = x, z

  for start in range(0, length - 1 - remainder, 64):
    round_(start, np.full(count, _K1), 1)
  mul = _K1 + ((z & np.uint64(0xFF)) << np.uint64(1))
  w = (w[0] + np.uint64(remainder), w[1])
  v = (v[0] + w[0], v[1])
  w = (w[0] + v[0], w[1])
  round_(length - 64, mul, 9)
  return _hash_pair(_hash_pair(v[0], w[0], mul) + _shift_mix(y) * _K0 + z, _hash_pair(v[1], w[1], mul) + x, mul)


_SIP_STATE = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)


def _sip_hash(data: np.ndarray, key: tuple[int, int]) -> _Words:
  count, length = data.shape
  v = [np.full(count, start ^ key[i % 2], np.uint64) for i, start in enumerate(_SIP_STATE)]
  # The last word holds the rest of the bytes, and the length in its highest byte.
  padded = np.zeros((count, length // 8 * 8 + 8), np.uint8)
  padded[:, :length] = data
  padded[:, -1] = length & 0xFF
  for start in range(0, padded.shape[1], 8):
    word = _fetch64(padded, start)
    v[3] = v[3] ^ word
    _sip_rounds(v, 2)
    v[0] = v[0] ^ word
  v[2] = v[2] ^ np.uint64(0xFF)
  _sip_rounds(v, 4)
  return v[0] ^ v[1] ^ v[2] ^ v[3]


def _sip_rounds(v: list[_Words], number: int) -> None:
  def left(words: _Words, shift: int) -> _Words:
    return _rotate(words, 64 - shift)

  for _ in range(number):
    v[0], v[2] = v[0] + v[1], v[2] + v[3]
    v[1], v[3] = left(v[1], 13) ^ v[0], left(v[3], 16) ^ v[2]
    v[0] = left(v[0], 32)
    v[2], v[0] = v[2] + v[1], v[0] + v[3]
    v[1], v[3] = left(v[1], 17) ^ v[2], left(v[3], 21) ^ v[0]
    v[2] = left(v[2], 32)


def _murmur_hash(data: np.ndarray, seed: int) -> _Words:
  count, length = data.shape
  shift = np.uint64(47)
  result = np.full(count, (seed ^ (length * int(_MURMUR))) % 2**64, np.uint64)
  whole = length // 8 * 8
  for start in range(0, whole, 8):
    word = _fetch64(data, start) * _MURMUR
    word = (word ^ (word >> shift)) * _MURMUR
    result = (result ^ word) * _MURMUR
  if whole < length:
    padded = np.zeros((count, 8), np.uint8)
    padded[:, : length - whole] = data[:, whole:]
    result = (result ^ _fetch64(padded, 0)) * _MURMUR
  result = (result ^ (result >> shift)) * _MURMUR
  return result ^ (result >> shift)
