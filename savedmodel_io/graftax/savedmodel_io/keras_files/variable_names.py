"""The names of the weights of Keras's layers, in the order in which Keras 3 numbers them in files."""

import re

__all__ = ["has_names", "snake_case", "variable_names"]

_KERNEL = ("kernel", "bias")
_SEPARABLE = ("depthwise_kernel", "pointwise_kernel", "bias")
_SCALE = ("gamma", "beta")
_CELL = ("kernel", "recurrent_kernel", "bias")

# Class in snake case -> names. Bias comes last, so a layer without it has the first ones.
_NAMES = {
  **dict.fromkeys(["dense", "einsum_dense", "depthwise_conv1d", "depthwise_conv2d"], _KERNEL),
  **dict.fromkeys([f"conv{n}d{kind}" for n in (1, 2, 3) for kind in ("", "_transpose")], _KERNEL),
  **dict.fromkeys(["locally_connected1d", "locally_connected2d"], _KERNEL),
  **dict.fromkeys(["separable_conv1d", "separable_conv2d"], _SEPARABLE),
  **dict.fromkeys(["simple_rnn_cell", "lstm_cell", "gru_cell", "conv_lstm_cell"], _CELL),
  "embedding": ("embeddings",),
  "p_re_lu": ("alpha",),
}
# Classes any of whose weights may be left out: the names are known only if all are there.
_COMPLETE_NAMES = {
  "batch_normalization": (*_SCALE, "moving_mean", "moving_variance"),
  **dict.fromkeys(["layer_normalization", "group_normalization"], _SCALE),
  "seed_generator": ("seed_generator_state",),
}
# Layers whose kernel or table is quantized to 8 or 4 bits, by the number of weights; blocks of 4 bits have zeros and
# the block of each row, too.
_BLOCKS = ("kernel_scale", "kernel_zero", "g_idx")
_QUANTIZED_KERNEL = {
  2: ("kernel", "kernel_scale"),
  3: ("kernel", "bias", "kernel_scale"),
  4: ("kernel", *_BLOCKS),
  5: ("kernel", "bias", *_BLOCKS),
}
_QUANTIZED_TABLE = {
  2: ("embeddings", "embeddings_scale"),
  4: ("embeddings", "embeddings_scale", "embeddings_zero", "g_idx"),
}
_QUANTIZED = {"dense": _QUANTIZED_KERNEL, "einsum_dense": _QUANTIZED_KERNEL, "embedding": _QUANTIZED_TABLE}


def variable_names(kind: str, num_weights: int, *, quantized: bool = False) -> tuple[str, ...]:
  """Returns the names of the weights of a layer; their numbers if the class is unknown or its weights are ambiguous.

  Args:
    kind: the class in snake case, such as `"conv2d"`; a number of the layer may follow.
    num_weights: how many weights the file has.
    quantized: whether the first weight has integers of 8 bits, into which 4 bits are packed, too.

  Example:
    >>> variable_names("dense_1", 2), variable_names("my_layer", 2)
    (('kernel', 'bias'), ('0', '1'))
    >>> variable_names("dense_1", 2, quantized=True)
    ('kernel', 'kernel_scale')
  """
  plain = _without_number(kind)
  names = _NAMES.get(plain, ())[:num_weights] or _COMPLETE_NAMES.get(plain, ())
  if quantized:
    names = _QUANTIZED.get(plain, {}).get(num_weights, ())
  return names if len(names) == num_weights else tuple(str(i) for i in range(num_weights))


def has_names(kind: str) -> bool:
  """Returns whether the weights of a class in snake case have known names; a number may follow the class."""
  return (plain := _without_number(kind)) in _NAMES or plain in _COMPLETE_NAMES


def _without_number(kind: str) -> str:
  return kind if kind in _NAMES or kind in _COMPLETE_NAMES else re.sub(r"_\d+$", "", kind)


def snake_case(class_name: str) -> str:
  """Returns how Keras spells the name of a class in files.

  Example:
    >>> snake_case("Conv2DTranspose"), snake_case("PReLU"), snake_case("LSTM")
    ('conv2d_transpose', 'p_re_lu', 'lstm')
  """
  return re.sub(r"(?<=.)(?=[A-Z][a-z])|(?<=[a-z])(?=[A-Z])", "_", re.sub(r"\W", "", class_name)).lower()
