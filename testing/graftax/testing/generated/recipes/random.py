"""Recipes of stateless random ops, which must match TensorFlow exactly for integers and uniforms."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from graftax.testing.generated.draw import Draw
from graftax.testing.generated.recipes.registry import recipe, recipes


def _seed(d: Draw) -> np.ndarray:
  return d.array((2,), d.attrs["Tseed"])


def _key(d: Draw) -> list[np.ndarray]:
  return [d.array((1,), np.uint64), d.array((2,), np.uint64), np.array(d.pick([1, 1, 2, 3]), np.int32)]


def _shape(d: Draw, attr: str) -> np.ndarray:
  return np.array(d.shape(0, 3), d.attrs[attr])


@recipe("StatelessRandomUniformInt", "StatelessRandomUniformIntV2")
def uniform_int(d: Draw) -> Sequence[Any]:
  """A range that is not empty."""
  dtype = d.attrs["dtype"]
  low = d.between((), dtype, 0 if dtype.kind == "u" else -50, 50)
  ends = [low, (low + d.between((), dtype, 1, 100)).astype(dtype)]
  if d.op.endswith("V2"):
    return [_shape(d, "Tshape"), *_key(d), *ends]
  return [_shape(d, "T"), _seed(d), *ends]


@recipe("StatelessRandomBinomial")
def binomial(d: Draw) -> Sequence[Any]:
  """Parameters of any style, invalid ones in the special style."""
  shape = d.shape(0, 2)
  counts = d.array(shape[-1:]) if d.style == "special" else d.between(shape[-1:], d.attrs["T"], 0, 30)
  probs = d.array(()) if d.style == "special" else d.between((), d.attrs["T"], 0, 1)
  return [np.array(shape, d.attrs["S"]), _seed(d), counts, probs]


@recipe("StatelessRandomPoisson")
def poisson(d: Draw) -> Sequence[Any]:
  """Rates of any style, invalid ones in the special style."""
  shape = d.shape(0, 2)
  rate = (
    d.array(shape[-1:], d.attrs["Rtype"]) if d.style == "special" else d.between(shape[-1:], d.attrs["Rtype"], 0, 30)
  )
  return [np.array(shape, d.attrs["T"]), _seed(d), rate]


recipes(
  {
    "StatelessRandomNormal StatelessRandomUniform StatelessRandomUniformFullInt StatelessTruncatedNormal": (
      lambda d: [_shape(d, "T"), _seed(d)]
    ),
    "StatelessRandomNormalV2 StatelessRandomUniformV2 StatelessRandomUniformFullIntV2 StatelessTruncatedNormalV2": (
      lambda d: [_shape(d, "Tshape"), *_key(d)]
    ),
    "StatelessRandomGetKeyCounter StatelessRandomGetKeyCounterAlg": lambda d: [_seed(d)],
    "StatelessShuffle": lambda d: [d.array(d.shape(1, 3)), *_key(d)],
    "StatelessRandomGammaV2": lambda d: [
      np.array(shape := d.shape(0, 2), d.attrs["T"]),
      _seed(d),
      d.between(shape[-1:], d.attrs["dtype"], 0.1, 5),
    ],
  }
)
