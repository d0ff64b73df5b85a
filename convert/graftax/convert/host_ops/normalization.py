"""Normalized text: CaseFoldUTF8, NormalizeUTF8.

TensorFlow Text 2.21 normalizes with the ICU library's tables of Unicode 16, these functions with Python's: Unicode 14
in Python 3.11, 15.0 in 3.12 and 15.1 in 3.13. Later versions of Unicode only add characters. A text with one of the few
added characters that normalizing changes is refused, unless Python knows the character.
"""

import re
import unicodedata
from typing import Literal

import numpy as np

from graftax.convert.host_ops.registry import host_op
from graftax.convert.host_ops.values import map_strings
from graftax.ops_jax import InvalidInputError, UnsupportedAttrError

__all__ = ["case_fold_utf8", "normalize_utf8"]

_Form = Literal["NFC", "NFD", "NFKC", "NFKD"]
_FORMS: dict[str, _Form] = {"NFC": "NFC", "NFD": "NFD", "NFKC": "NFKC", "NFKD": "NFKD"}
# The code points with the property Default_Ignorable_Code_Point, which case folding removes.
_IGNORABLE = re.compile(
  "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
  "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# What Unicode 15.0 to 16.0 added and some form or case folding changes, or reorders as an accent.
_ADDED = re.compile(
  "[\u0897\u1c89\ua7cb\ua7cc\ua7da\ua7dc\U000105c9\U000105d2\U000105da\U000105e4\U00010d50-\U00010d65"
  "\U00010d69-\U00010d6d\U00010efd-\U00010eff\U00011382-\U00011385\U0001138b\U0001138e\U00011390\U00011391\U000113b8"
  "\U000113bb\U000113c2\U000113c5\U000113c7-\U000113c9\U000113ce-\U000113d0\U00011f41\U00011f42\U0001611e-\U00016129"
  "\U0001612f\U00016d63\U00016d67-\U00016d6a\U0001ccd6-\U0001ccf9\U0001e030-\U0001e06d\U0001e08f\U0001e4ec-\U0001e4ef"
  "\U0001e5ee\U0001e5ef]"
)


@host_op("NormalizeUTF8")
def normalize_utf8(input_: np.ndarray, *, normalization_form: bytes) -> np.ndarray:
  """Returns the strings in a normal form of Unicode; malformed bytes stay as they are.

  Raises:
    InvalidInputError: a string has a character that this Python does not know.
    UnsupportedAttrError: the form is not one of Unicode's four.
  """
  name = normalization_form.decode(errors="replace")
  form = _FORMS.get(name.upper())
  if form is None:
    raise UnsupportedAttrError(f"NormalizeUTF8: form {name!r}; expected one of {sorted(_FORMS)}.")
  return map_strings(lambda item: _encode(unicodedata.normalize(form, _decode("NormalizeUTF8", item))), input_)


@host_op("CaseFoldUTF8")
def case_fold_utf8(input_: np.ndarray) -> np.ndarray:
  """Returns the strings without differences of case, as Unicode's NFKC_Casefold; malformed bytes stay as they are.

  Raises:
    InvalidInputError: a string has a character that this Python does not know.
  """
  return map_strings(lambda item: _encode(_case_folded(_decode("CaseFoldUTF8", item))), input_)


def _case_folded(text: str) -> str:
  if text.isascii():
    return text.lower()
  before = None
  # A folded character can have a normal form that can be folded again.
  while text != before:
    before = text
    text = unicodedata.normalize("NFKC", _IGNORABLE.sub("", unicodedata.normalize("NFKC", text).casefold()))
  return text


def _decode(op: str, item: bytes) -> str:
  # Malformed bytes become surrogates, which no form changes.
  text = item.decode("utf-8", "surrogateescape")
  for character in () if text.isascii() else _ADDED.findall(text):
    if unicodedata.category(character) == "Cn":
      raise InvalidInputError(
        f"{op}: {item!r} has U+{ord(character):04X}, which is not in Unicode {unicodedata.unidata_version} of this "
        "Python, so its normal form is unknown. A newer Python knows more characters."
      )
  return text


def _encode(text: str) -> bytes:
  return text.encode("utf-8", "surrogateescape")
