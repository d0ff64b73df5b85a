"""Random texts in UTF-8 of all planes of Unicode, also malformed ones."""

import random

__all__ = ["random_texts"]

_SURROGATES = range(0xD800, 0xE000)
_EDGES = (b"", b" ", b"\0", b"a\0b", b"\xff", "İIıiß ΣΑΣ ǅ".encode(), *(b"x" * n for n in range(0, 260, 7)))


def random_texts(count: int, seed: int = 0, planes: tuple[int, int] = (0x250, 0x110000)) -> list[bytes]:
  """Returns texts, the same ones on every call.

  Of ten texts three are ASCII words, two random bytes, two have a byte that was changed, and the others are valid.

  Args:
    count: the number of texts; the last ones are edge cases, such as empty and long texts.
    seed: the seed of the random numbers.
    planes: the first and the last of the code points beyond Latin, without the last one.

  Example:
    >>> texts = random_texts(100)
    >>> len(texts), texts == random_texts(100)
    (100, True)
  """
  generator = random.Random(seed)
  return [*(_text(generator, planes) for _ in range(count - len(_EDGES))), *_EDGES]


def _text(generator: random.Random, planes: tuple[int, int]) -> bytes:
  length = int(generator.expovariate(1 / 12))
  kind = generator.random()
  if kind < 0.3:
    return "".join(generator.choice("abcXYZ ,.!? the fox\t\n0189") for _ in range(length)).encode()
  if kind < 0.5:
    return bytes(generator.randrange(256) for _ in range(length))
  text = bytearray("".join(_character(generator, planes) for _ in range(length)).encode())
  if kind < 0.7 and text:
    text[generator.randrange(len(text))] = generator.randrange(256)
  return bytes(text)


def _character(generator: random.Random, planes: tuple[int, int]) -> str:
  point = generator.choice([generator.randrange(0x20, 0x250), generator.randrange(*planes)])
  return chr(point if point not in _SURROGATES else 0xFFFD)
