"""A classifier of handwritten digits, trained in TensorFlow, with its data and TensorFlow's own answers.

`model/` is a SavedModel: convolutions, batch normalization, swish and dense layers, input `images`
`float32[batch, 8, 8, 1]` between 0 and 1, outputs `logits` and `probabilities`. `digits.npz` holds the images it was
trained and tested on and the logits that TensorFlow computes for the test images. `make.py` made both.

The images are the "Optical Recognition of Handwritten Digits" data set of E. Alpaydin and C. Kaynak (UCI Machine
Learning Repository, CC BY 4.0) in the form in which scikit-learn distributes it.
"""

from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

__all__ = ["Digits", "load_digits", "model_path"]

_NUM_LEVELS = 16


@dataclass(frozen=True, slots=True)
class Digits:
  """Images and labels, with what TensorFlow makes of the test images.

  Attributes:
    train_images: `float32[n, 8, 8, 1]`, 0 is paper and 1 is ink.
    train_labels: `int32[n]`, 0 to 9.
    test_images: `float32[m, 8, 8, 1]`, none of them in training.
    test_labels: `int32[m]`.
    tensorflow_logits: `float32[m, 10]` for the test images.
  """

  train_images: np.ndarray
  train_labels: np.ndarray
  test_images: np.ndarray
  test_labels: np.ndarray
  tensorflow_logits: np.ndarray


def model_path() -> Path:
  """Returns the folder of the SavedModel."""
  return _folder() / "model"


def load_digits() -> Digits:
  """Returns the images, their labels and TensorFlow's logits.

  Example:
    >>> load_digits().test_images.shape
    (360, 8, 8, 1)
  """
  with np.load(_folder() / "digits.npz") as data:
    return Digits(
      train_images=_scaled(data["train_images"]),
      train_labels=data["train_labels"].astype(np.int32),
      test_images=_scaled(data["test_images"]),
      test_labels=data["test_labels"].astype(np.int32),
      tensorflow_logits=data["tensorflow_logits"],
    )


def _folder() -> Path:
  # Wheels are installed as files, never run from a zip, so the folder outlives the context.
  with as_file(files(__name__)) as folder:
    return folder


def _scaled(images: np.ndarray) -> np.ndarray:
  return (images.astype(np.float32) / _NUM_LEVELS)[..., None]
