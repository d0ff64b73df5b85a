"""Encoded images, with Pillow: DecodeJpeg, DecodePng, DecodeBmp, DecodeGif, DecodeImage."""

import io
from typing import Any

import numpy as np

from graftax.convert.host_ops.registry import host_op
from graftax.convert.host_ops.values import scalar_string
from graftax.graphdef_ir import DType, optional_library
from graftax.ops_jax import InvalidInputError, UnsupportedAttrError

__all__ = ["decode_bmp", "decode_gif", "decode_image", "decode_jpeg", "decode_png"]

_FORMATS = ("BMP", "GIF", "JPEG", "PNG")
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
# The weights of red, green and blue with which libpng makes gray of them, in units of 1 / 32768.
_PNG_GRAY = np.array([9797, 19234, 3737])

# Any in this module: Pillow's images.


@host_op("DecodeJpeg")
def decode_jpeg(
  contents: np.ndarray,
  *,
  channels: int = 0,
  ratio: int = 1,
  fancy_upscaling: bool = True,
  try_recover_truncated: bool = False,
  acceptable_fraction: float = 1.0,
  dct_method: str = "",
) -> np.ndarray:
  """Returns `[height, width, channels]` uint8 of a JPEG, and of the other formats as in TensorFlow.

  Raises:
    InvalidInputError: it is not an image of a known format, or it is damaged.
    UnsupportedAttrError: Pillow does not decode in the way that an attribute says.

  Differs from TF: results are those of `dct_method="INTEGER_ACCURATE"` bit for bit. TensorFlow's default is the faster
  and less exact "INTEGER_FAST", which Pillow does not have: values differ by up to 5 at quality 75 and by 11 at 95.
  """
  if not fancy_upscaling or try_recover_truncated or acceptable_fraction < 1 or dct_method == "INTEGER_FAST":
    raise UnsupportedAttrError(
      f"DecodeJpeg: fancy_upscaling={fancy_upscaling!r}, try_recover_truncated={try_recover_truncated!r}, "
      f"acceptable_fraction={acceptable_fraction!r}, dct_method={dct_method!r}; only the defaults are supported."
    )
  image = _open("DecodeJpeg", contents)
  return _first_frame("DecodeJpeg", image, channels, ratio)


@host_op("DecodePng")
def decode_png(contents: np.ndarray, *, channels: int = 0, dtype: DType = DType.UINT8) -> np.ndarray:
  """Returns `[height, width, channels]` of a PNG or one of the other formats; raises as `decode_jpeg` does."""
  image = _open("DecodePng", contents)
  if dtype is not DType.UINT8:
    return _pixels_of_16_bits(image, channels)
  return _first_frame("DecodePng", image, channels)


def _pixels_of_16_bits(image: Any, channels: int) -> np.ndarray:
  if image.mode in ("I", "I;16", "I;16B") and channels in (0, 1):
    return np.asarray(image).astype(np.uint16)[..., None]
  # Pillow reads colors of 16 bits as 8 bits.
  if "16" in str(getattr(image, "tile", "")):
    raise UnsupportedAttrError("DecodePng: dtype=uint16 of an image with colors of 16 bits; only gray is supported.")
  return _first_frame("DecodePng", image, channels).astype(np.uint16) * np.uint16(257)


@host_op("DecodeBmp")
def decode_bmp(contents: np.ndarray, *, channels: int = 0) -> np.ndarray:
  """Returns `[height, width, channels]` uint8 of a BMP; raises as `decode_jpeg` does."""
  return _first_frame("DecodeBmp", _open("DecodeBmp", contents), channels)


@host_op("DecodeGif")
def decode_gif(contents: np.ndarray) -> np.ndarray:
  """Returns `[frames, height, width, 3]` uint8; raises as `decode_jpeg` does."""
  return _frames("DecodeGif", _open("DecodeGif", contents))


@host_op("DecodeImage")
def decode_image(
  contents: np.ndarray, *, channels: int = 0, dtype: DType = DType.UINT8, expand_animations: bool = True
) -> np.ndarray:
  """Returns `[height, width, channels]` of an image, or `[frames, height, width, 3]` of a GIF.

  Raises:
    InvalidInputError: it is not an image of a known format, or it is damaged.
    UnsupportedAttrError: the dtype is neither uint8 nor float.
  """
  image = _open("DecodeImage", contents)
  if dtype not in (DType.UINT8, DType.FLOAT):
    raise UnsupportedAttrError(f"DecodeImage: dtype={dtype.tf_name} is not supported; expected uint8 or float.")
  if image.format == "GIF":
    frames = _frames("DecodeImage", image)
    pixels = frames if expand_animations else frames[0]
  else:
    pixels = _first_frame("DecodeImage", image, channels)
  return pixels if dtype is DType.UINT8 else pixels.astype(np.float32) * np.float32(1 / 255)


def _open(op: str, contents: np.ndarray) -> Any:
  """Returns an image whose pixels are not decoded yet."""
  with optional_library("the model's host part, which has encoded images,", "graftax-convert[image]"):
    from PIL import Image
  data = scalar_string(contents, f"{op}: contents")
  try:
    return Image.open(io.BytesIO(data), formats=_FORMATS)
  except Image.DecompressionBombError as e:
    raise InvalidInputError(f"{op}: {e}") from e
  except OSError as e:
    raise InvalidInputError(
      f"{op}: {len(data)} bytes that begin with {data[:8]!r} are not an image; expected one of {', '.join(_FORMATS)}."
    ) from e


def _first_frame(op: str, image: Any, channels: int, ratio: int = 1) -> np.ndarray:
  if channels not in (0, *_MODES):
    raise UnsupportedAttrError(f"{op}: channels={channels!r}; expected 0, 1, 3 or 4.")
  try:
    if image.format == "JPEG":
      # The decoder itself scales, and returns the brightness as gray.
      image.draft("L" if channels == 1 else image.mode, (image.width // ratio, image.height // ratio))
    return _pixels(op, image, channels)
  except (OSError, SyntaxError, ValueError) as e:
    raise InvalidInputError(f"{op}: the {image.format} image is damaged: {e}.") from e


def _pixels(op: str, image: Any, channels: int) -> np.ndarray:
  kind = image.format
  if image.mode == "P" or "transparency" in image.info:
    image = image.convert("RGBA" if "transparency" in image.info else "RGB")
  if image.mode in ("I", "I;16", "I;16B"):
    pixels = (np.asarray(image).astype(np.uint16) >> 8).astype(np.uint8)[..., None]
  elif image.mode in ("1", "L", "LA", "RGB", "RGBA"):
    pixels = np.atleast_3d(np.asarray(image.convert("L") if image.mode == "1" else image))
  else:
    raise InvalidInputError(f"{op}: the image has the color mode {image.mode!r}; expected gray or RGB.")
  return pixels if channels in (0, pixels.shape[-1]) else _with_channels(op, pixels, channels, kind)


def _with_channels(op: str, pixels: np.ndarray, channels: int, kind: str | None) -> np.ndarray:
  """Returns pixels with another number of channels: gray is repeated, transparency left out or added."""
  present = pixels.shape[-1]
  colors, alpha = (pixels[..., :-1], pixels[..., -1:]) if present in (2, 4) else (pixels, None)
  if channels == 1 and colors.shape[-1] == 3:
    if kind != "PNG":
      raise UnsupportedAttrError(f"{op}: channels=1 of a color image in the format {kind}.")
    return _png_gray(colors)
  if channels > 1 and colors.shape[-1] == 1:
    colors = np.repeat(colors, 3, axis=-1)
  if channels < 4:
    return colors
  full = np.full_like(colors[..., :1], 255)
  return np.concatenate([colors, full if alpha is None else alpha], axis=-1)


def _png_gray(colors: np.ndarray) -> np.ndarray:
  gray = (colors.astype(np.int64) @ _PNG_GRAY) >> 15
  is_gray = (colors == colors[..., :1]).all(axis=-1)
  return np.where(is_gray, colors[..., 0], gray).astype(np.uint8)[..., None]


def _frames(op: str, image: Any) -> np.ndarray:
  try:
    frames = []
    for position in range(getattr(image, "n_frames", 1)):
      image.seek(position)
      frames.append(np.asarray(image.convert("RGB")))
    return np.stack(frames)
  except (OSError, EOFError, ValueError) as e:
    raise InvalidInputError(f"{op}: the {image.format} image is damaged: {e}.") from e
