"""Names of parameters as words: what a parameter is to its layer, and what its layer is called."""

import re

__all__ = ["COUNTERS", "contradict", "is_number", "numbers", "pattern", "role", "shared", "split_name", "words"]

# What different libraries call the same thing. The first word of a row stands for all of them.
_SYNONYMS = {
  word: row.split()[0]
  for row in (
    "query q wq",
    "key k wk",
    "value v wv",
    "attention attn mha",
    "cross crossattention",
    "normalization norm batchnorm layernorm layernormalization groupnorm rmsnorm bn ln",
    "convolution conv conv1d conv2d conv3d",
    "depthwise dw depthwiseconv",
    "dense linear fc",
    "shortcut downsample skip",
    "squeeze se",
    "head classifier logits predictions prediction score",
    "position positional pos wpe positions",
    "token word wte tokens",
    "segment type token_type segments",
    "feedforward ffn mlp ffw ff",
    "gate gating",
    "encoder enc",
    "decoder dec",
    "output out",
    "projection project proj pointwise_linear",
    "expand expansion intermediate",
    "recurrent hh",
    "final f",
  )
  for word in row.split()
}
_EXCLUSIVE = (
  {"query", "key", "value"},
  {"encoder", "decoder"},
  {"position", "token", "segment"},
  {"expand", "depthwise"},
  {"shortcut", "depthwise"},
)
_FILLER = {"layer", "layers", "block", "blocks", "module", "params", "model", "net", "backbone", "stage", "stages"}

_MEAN = {"mean", "average"}
_VARIANCE = {"variance", "var"}
_SCALE = {"gamma", "scale", "g"}
_BIAS = {"beta", "bias", "offset", "b"}
_KERNEL = {"kernel", "weight", "weights", "w"}
_TABLE = {"embedding", "embeddings", "embed", "wte", "wpe"}

# Values that no inference reads: steps, and what haiku keeps beside an average.
COUNTERS = {
  "counter",
  "hidden",
  "num_batches_tracked",
  "iteration",
  "iterations",
  "count",
  "seed_generator_state",
  "step",
}


def split_name(name: str) -> tuple[str, ...]:
  """Returns the parts of a name in small letters: words and numbers.

  Example:
    >>> split_name("encoder/layer_11/selfAttention/conv2d_3/kernel")
    ('encoder', 'layer', '11', 'self', 'attention', 'conv', '3', 'kernel')
  """
  spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
  spaced = re.sub(r"(?i)(conv)_?[123]_?d(?![a-z])", r"\1", spaced)
  return tuple(re.findall(r"[a-z]+|\d+", spaced.lower()))


def is_number(part: str) -> bool:
  """Returns whether a part of a name is a number."""
  return part.isdecimal()


def numbers(name: str) -> tuple[int, ...]:
  """Returns the numbers in a name, in their order."""
  return tuple(int(part) for part in split_name(name) if is_number(part))


def words(name: str) -> frozenset[str]:
  """Returns the words of a name that tell something, each as the one that stands for its synonyms."""
  found = (_SYNONYMS.get(part, part) for part in split_name(name) if not is_number(part))
  return frozenset(found) - _FILLER


def contradict(one: frozenset[str], other: frozenset[str]) -> bool:
  """Returns whether two sets of words cannot be of the same layer, as "query" and "key"."""
  return any(one & group and other & group and not one & other & group for group in _EXCLUSIVE)


def shared(one: frozenset[str], other: frozenset[str]) -> float:
  """Returns how much of two sets of words is the same, from 0 to 1."""
  return 2 * len(one & other) / (len(one) + len(other)) if one or other else 0.0


def pattern(name: str) -> tuple[str, ...]:
  """Returns the parts of a name that are not numbers: names that only count have the same ones."""
  return tuple(part for part in split_name(name) if not is_number(part))


def role(leaf: str, rank: int) -> tuple[str, str]:
  """Returns what a parameter is to its layer, and what of its own name belongs to the name of the layer.

  Args:
    leaf: the last part of the name.
    rank: of the array, without axes of size 1.

  Example:
    >>> role("moving_variance", 1), role("weight", 1), role("depthwise_kernel", 4)
    (('variance', ''), ('scale', ''), ('kernel', 'depthwise'))
  """
  parts = split_name(leaf)
  for name, known in (
    ("mean", _MEAN),
    ("variance", _VARIANCE),
    ("scale", _SCALE),
    ("bias", _BIAS),
    ("kernel", _KERNEL),
    ("table", _TABLE),
  ):
    if known & set(parts) and not (rank > 1 and parts == ("b",)):
      kind = name
      if name == "kernel" and rank <= 1:
        kind = "scale"
      rest = "_".join(part for part in parts if part not in known | {"moving", "running"})
      return kind, rest
  return "value", "_".join(parts)
