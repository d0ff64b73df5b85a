"""Encoded images, with Pillow: DecodeJpeg, DecodeAndCropJpeg, DecodePng, DecodeBmp, DecodeGif, DecodeImage."""

import io
import math
from typing import TYPE_CHECKING

import numpy as np

from graftax.convert.host_ops.bitmaps import bitmap_pixels, is_bitmap
from graftax.convert.host_ops.registry import host_op
from graftax.convert.host_ops.values import scalar_string
from graftax.graphdef_ir import DType, optional_library
from graftax.ops_jax import Context, InvalidInputError, UnsupportedAttrError

if TYPE_CHECKING:
  from PIL import Image

__all__ = [
  "decode_and_crop_jpeg",
  "decode_bmp",
  "decode_gif",
  "decode_image",
  "decode_jpeg",
  "decode_png",
  "extract_jpeg_shape",
]

_FORMATS = ("BMP", "GIF", "JPEG", "PNG")
_MOST_CHANNELS = 4
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
# Pillow's modes of gray of 16 bits.
_DEEP_GRAY = ("I", "I;16", "I;16B")
# The highest value of gray of fewer than 8 bits, by Pillow's name for how it is stored in a PNG.
_MOST_OF_GRAY = {"1": 1, "L;2": 3, "L;4": 15}
# The weights of red, green and blue with which libpng makes gray of them, in units of 1 / 32768.
_PNG_GRAY = np.array([9797, 19234, 3737])


@host_op("DecodeJpeg")
def decode_jpeg(
  ctx: Context,
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
    LimitExceededError: its pixels take more memory than the limits of the call allow.

  Differs from TF: results are those of `dct_method="INTEGER_ACCURATE"` bit for bit. TensorFlow's default is the faster
  and less exact "INTEGER_FAST", which Pillow does not have: values differ by up to 5 at quality 75 and by 11 at 95.
  """
  if not fancy_upscaling or try_recover_truncated or acceptable_fraction < 1 or dct_method == "INTEGER_FAST":
    raise UnsupportedAttrError(
      f"DecodeJpeg: fancy_upscaling={fancy_upscaling!r}, try_recover_truncated={try_recover_truncated!r}, "
      f"acceptable_fraction={acceptable_fraction!r}, dct_method={dct_method!r}; only the defaults are supported."
    )
  if ratio not in (1, 2, 4, 8):
    raise UnsupportedAttrError(f"DecodeJpeg: ratio={ratio!r}; expected 1, 2, 4 or 8.")
  image = _open(ctx, "DecodeJpeg", contents)
  return _first_frame("DecodeJpeg", image, channels, ratio)


@host_op("DecodeAndCropJpeg")
def decode_and_crop_jpeg(
  ctx: Context,
  contents: np.ndarray,
  crop_window: np.ndarray,
  *,
  channels: int = 0,
  ratio: int = 1,
  fancy_upscaling: bool = True,
  try_recover_truncated: bool = False,
  acceptable_fraction: float = 1.0,
  dct_method: str = "",
) -> np.ndarray:
  """Returns a window of a JPEG, given as top, left, height and width; raises as `decode_jpeg` does.

  Raises:
    InvalidInputError: the window is not inside of the image.

  Differs from TF: of images whose colors are stored at half of the resolution, as most are, TensorFlow computes the
  colors of the first and last column of the window without the pixels beside it.
  """
  pixels = decode_jpeg(
    ctx,
    contents,
    channels=channels,
    ratio=ratio,
    fancy_upscaling=fancy_upscaling,
    try_recover_truncated=try_recover_truncated,
    acceptable_fraction=acceptable_fraction,
    dct_method=dct_method,
  )
  window = np.reshape(crop_window, -1).tolist()
  top, left, height, width = window if len(window) == 4 else (-1,) * 4
  fits = top >= 0 and left >= 0 and top + height <= pixels.shape[0] and left + width <= pixels.shape[1]
  if not fits or height <= 0 or width <= 0:
    raise InvalidInputError(
      f"DecodeAndCropJpeg: crop_window={window!r}; expected [top, left, height, width] inside of an image of "
      f"{pixels.shape[0]} x {pixels.shape[1]} pixels."
    )
  return pixels[top : top + height, left : left + width]


@host_op("ExtractJpegShape")
def extract_jpeg_shape(
  ctx: Context,
  contents: np.ndarray,
  *,
  output_type: np.dtype = np.dtype(np.int32),  # noqa: B008 -- the op's attribute; dtypes are immutable
) -> np.ndarray:
  """Returns height, width and channels of a JPEG.

  Raises:
    InvalidInputError: it is not a JPEG.
  """
  image = _open(ctx, "ExtractJpegShape", contents)
  if image.format != "JPEG":
    raise InvalidInputError(f"ExtractJpegShape: the image is in the format {image.format}; expected JPEG.")
  return np.array([image.height, image.width, len(image.getbands())], output_type)


@host_op("DecodePng")
def decode_png(ctx: Context, contents: np.ndarray, *, channels: int = 0, dtype: DType = DType.UINT8) -> np.ndarray:
  """Returns `[height, width, channels]` of a PNG or one of the other formats; raises as `decode_jpeg` does.

  Raises:
    UnsupportedAttrError: also if four channels are asked for and one color of 16 bits is transparent.

  Differs from TF: gray of colors of 16 bits is computed from their first 8 bits, so it may be one level less. Images
  without transparency are opaque: of those with fewer than 8 bits, TensorFlow's fourth channel is at most 15.
  """
  image = _open(ctx, "DecodePng", contents, itemsize_bytes=1 if dtype is DType.UINT8 else 2)
  if dtype is not DType.UINT8:
    return _pixels_of_16_bits("DecodePng", image, channels)
  return _first_frame("DecodePng", image, channels)


def _pixels_of_16_bits(op: str, image: "Image.Image", channels: int) -> np.ndarray:
  if image.mode in _DEEP_GRAY:
    return _first_frame(op, image, channels, deep=True)
  # Pillow reads colors of 16 bits as 8 bits.
  if _stored_as(image).endswith("16B"):
    raise UnsupportedAttrError(f"{op}: 16 bits of an image with colors of 16 bits; only gray is supported.")
  return _first_frame(op, image, channels).astype(np.uint16) * np.uint16(257)


def _stored_as(image: "Image.Image") -> str:
  """Returns Pillow's name for how the pixels of a PNG are stored, such as "RGB;16B"; "" of the other formats."""
  tiles = getattr(image, "tile", None)
  # A tile is the decoder, the extents, the offset in the file, and for PNG this name. The others have more arguments.
  return str(tiles[0][3]) if image.format == "PNG" and tiles else ""


@host_op("DecodeBmp")
def decode_bmp(ctx: Context, contents: np.ndarray, *, channels: int = 0) -> np.ndarray:
  """Returns `[height, width, channels]` uint8 of a BMP; raises as `decode_jpeg` does."""
  data = scalar_string(contents, "DecodeBmp: contents")
  if is_bitmap(data):
    return _bitmap(ctx, "DecodeBmp", data, channels)
  return _first_frame("DecodeBmp", _open(ctx, "DecodeBmp", contents), channels)


def _bitmap(ctx: Context, op: str, data: bytes, channels: int, itemsize_bytes: int = 1) -> np.ndarray:
  if channels not in (0, 3, 4):
    raise UnsupportedAttrError(f"{op}: channels={channels!r} of a BMP image; expected 0, 3 or 4.")
  pixels = bitmap_pixels(ctx, op, data, least_channels=channels, itemsize_bytes=itemsize_bytes)
  return pixels if channels in (0, pixels.shape[-1]) else _with_channels(op, pixels, channels, "BMP")


@host_op("DecodeGif")
def decode_gif(ctx: Context, contents: np.ndarray) -> np.ndarray:
  """Returns `[frames, height, width, 3]` uint8; raises as `decode_jpeg` does."""
  return _frames("DecodeGif", _open(ctx, "DecodeGif", contents, all_frames=True))


@host_op("DecodeImage")
def decode_image(
  ctx: Context,
  contents: np.ndarray,
  *,
  channels: int = 0,
  dtype: DType = DType.UINT8,
  expand_animations: bool = True,
) -> np.ndarray:
  """Returns `[height, width, channels]` of an image, or `[frames, height, width, 3]` of a GIF.

  Raises:
    InvalidInputError: it is not an image of a known format, or it is damaged.
    UnsupportedAttrError: the dtype is not uint8, uint16 or float, or it needs 16 bits of a color of a PNG.
    LimitExceededError: its pixels take more memory than the limits of the call allow.
  """
  if dtype not in (DType.UINT8, DType.UINT16, DType.FLOAT):
    raise UnsupportedAttrError(f"DecodeImage: dtype={dtype.tf_name} is not supported; expected uint8, uint16 or float.")
  data = scalar_string(contents, "DecodeImage: contents")
  itemsize = {DType.UINT8: 1, DType.UINT16: 2, DType.FLOAT: 4}[dtype]
  if is_bitmap(data):
    return _converted(_bitmap(ctx, "DecodeImage", data, channels, itemsize), dtype)
  image = _open(ctx, "DecodeImage", contents, all_frames=expand_animations, itemsize_bytes=itemsize)
  if image.format == "GIF":
    frames = _frames("DecodeImage", image, None if expand_animations else 1)
    return _converted(frames if expand_animations else frames[0], dtype)
  if image.format == "PNG" and dtype is not DType.UINT8:
    return _converted(_pixels_of_16_bits("DecodeImage", image, channels), dtype)
  return _converted(_first_frame("DecodeImage", image, channels), dtype)


def _converted(pixels: np.ndarray, dtype: DType) -> np.ndarray:
  """Returns pixels of 8 or 16 bits in the dtype of `DecodeImage`."""
  if dtype is DType.FLOAT:
    return pixels.astype(np.float32) * np.float32(1 / np.iinfo(pixels.dtype).max)
  if dtype is DType.UINT16 and pixels.dtype == np.uint8:
    return pixels.astype(np.uint16) * np.uint16(256)
  return pixels


def _open(
  ctx: Context, op: str, contents: np.ndarray, *, all_frames: bool = False, itemsize_bytes: int = 1
) -> "Image.Image":
  """Returns an image whose pixels are not decoded yet, after asking the budget for their memory."""
  with optional_library("the model's host part, which has encoded images,", "graftax-convert[image]"):
    from PIL import Image
  data = scalar_string(contents, f"{op}: contents")
  try:
    image = Image.open(io.BytesIO(data), formats=_FORMATS)
    num_frames = getattr(image, "n_frames", 1) if all_frames else 1
  except Image.DecompressionBombError as e:
    raise InvalidInputError(f"{op}: {e}") from e
  except Exception as e:  # Pillow passes on what its decoders raise, of many types
    raise InvalidInputError(
      f"{op}: {len(data)} bytes that begin with {data[:8]!r} are not an image ({type(e).__name__}: {e}); "
      f"expected one of {', '.join(_FORMATS)}."
    ) from e
  where = f"{op} node {ctx.node_name!r} (function {ctx.function_name!r})"
  shape = (num_frames, image.height, image.width, _MOST_CHANNELS)
  ctx.budget.check_array(shape, itemsize_bytes, where)
  ctx.budget.spend_decoded_bytes(math.prod(shape) * itemsize_bytes, len(data), where)
  return image


def _first_frame(op: str, image: "Image.Image", channels: int, ratio: int = 1, *, deep: bool = False) -> np.ndarray:
  if channels not in (0, *_MODES):
    raise UnsupportedAttrError(f"{op}: channels={channels!r}; expected 0, 1, 3 or 4.")
  try:
    if image.format == "JPEG":
      # The decoder itself scales, and returns the brightness as gray.
      image.draft("L" if channels == 1 else image.mode, (image.width // ratio, image.height // ratio))
    return _pixels(op, image, channels, deep)
  except (InvalidInputError, UnsupportedAttrError):
    raise
  except Exception as e:  # as in _open
    raise InvalidInputError(f"{op}: the {image.format} image is damaged: {type(e).__name__}: {e}.") from e


def _pixels(op: str, image: "Image.Image", channels: int, deep: bool) -> np.ndarray:
  kind = image.format
  transparent = _transparent_color(op, image) if channels == 4 else None
  if image.mode == "P":
    image = image.convert("RGBA" if kind == "PNG" and "transparency" in image.info else "RGB")
  if image.mode in (*_DEEP_GRAY, "1", "L", "LA", "RGB", "RGBA"):
    pixels = np.atleast_3d(np.asarray(image.convert("L") if image.mode == "1" else image))
  else:
    raise InvalidInputError(f"{op}: the image has the color mode {image.mode!r}; expected gray or RGB.")
  if image.mode in _DEEP_GRAY:
    pixels = pixels.astype(np.uint16)
  if transparent is not None:
    pixels = _with_alpha(pixels, (pixels != transparent).any(axis=-1, keepdims=True))
  if pixels.dtype == np.uint16 and not deep:
    pixels = (pixels >> 8).astype(np.uint8)
  return pixels if channels in (0, pixels.shape[-1]) else _with_channels(op, pixels, channels, kind)


def _transparent_color(op: str, image: "Image.Image") -> np.ndarray | None:
  """Returns the color of a PNG without palette that its tRNS chunk makes transparent.

  As in TensorFlow, this matters only if four channels are asked for: otherwise the chunk is left out.
  """
  color = image.info.get("transparency")
  if image.format != "PNG" or image.mode == "P" or color is None:
    return None
  stored = _stored_as(image)
  if image.mode in _DEEP_GRAY:
    return np.array([color], np.uint16)
  if stored.endswith("16B"):
    # Pillow reads colors of 16 bits as 8 bits, so that several of them become this one.
    raise UnsupportedAttrError(f"{op}: channels=4 of colors of 16 bits, one of them transparent; expected 0, 1 or 3.")
  # The chunk has 16 bits, of which those of the image's depth count. Pillow has spread fewer than 8 over 0 to 255.
  most = _MOST_OF_GRAY.get(stored, 255)
  return (np.atleast_1d(color) & most) * (255 // most)


def _with_alpha(colors: np.ndarray, is_visible: np.ndarray) -> np.ndarray:
  """Returns gray or colors with an alpha channel that is 0 or the highest value."""
  return np.concatenate([colors, is_visible * np.array(np.iinfo(colors.dtype).max, colors.dtype)], axis=-1)


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
  if alpha is None:
    return _with_alpha(colors, np.ones_like(colors[..., :1], bool))
  return np.concatenate([colors, alpha], axis=-1)


def _png_gray(colors: np.ndarray) -> np.ndarray:
  # By rows, because the products are several times as large as the colors.
  rows = [_gray_row(row) for row in colors]
  return np.stack(rows)[..., None] if rows else colors[..., :1]


def _gray_row(colors: np.ndarray) -> np.ndarray:
  gray = (colors.astype(np.int64) @ _PNG_GRAY) >> 15
  is_gray = (colors == colors[..., :1]).all(axis=-1)
  return np.where(is_gray, colors[..., 0], gray).astype(np.uint8)


def _frames(op: str, image: "Image.Image", num_frames: int | None = None) -> np.ndarray:
  """Returns the first frames of an image; by default all."""
  try:
    count = getattr(image, "n_frames", 1) if num_frames is None else num_frames
    frames = np.empty((count, image.height, image.width, 3), np.uint8)
    for position in range(count):
      image.seek(position)
      frames[position] = np.asarray(image.convert("RGB"))
    return frames
  except Exception as e:  # as in _open
    raise InvalidInputError(f"{op}: the {image.format} image is damaged: {type(e).__name__}: {e}.") from e
