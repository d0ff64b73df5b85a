"""Writes docs/examples/written_source: four models of Keras as Python, as `graftax source` writes them.

python -m graftax.tools.codegen.generate_source_examples            # rewrite the files
python -m graftax.tools.codegen.generate_source_examples --check    # exit 1 if one is out of date
"""

import functools
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from graftax.savedmodel_io import SavedModel, load
from graftax.tools._tensorflow import KerasModel, TfTensor
from graftax.tools.codegen.generated_file import REPOSITORY, run_generator
from graftax.tools.commands.source_folder import signature_source

__all__ = ["FOLDER", "MODELS", "exported", "main"]

FOLDER = REPOSITORY / "docs" / "examples" / "written_source"
"""Where the files are."""


def _lstm_classifier() -> KerasModel:
  import keras

  layers = keras.layers
  stack = [layers.Embedding(10_000, 64), layers.LSTM(128), layers.Dense(4, activation="softmax")]
  return keras.Sequential([layers.Input((80,), dtype="int32", name="ids"), *stack])


def _bert(heads: int = 2, length: int = 64, words: int = 1000) -> KerasModel:
  """Returns BERT as its authors describe it, with 12 layers. That of BERT base has 12 heads of this size."""
  import keras

  class Positions(keras.layers.Layer):
    """Adds an embedding of its own to each position."""

    def build(self, shape: Any) -> None:
      self.embeddings = self.add_weight(name="embeddings", shape=shape[1:])

    def call(self, x: TfTensor) -> TfTensor:
      return x + self.embeddings

  layers, width = keras.layers, 64 * heads
  norm = functools.partial(layers.LayerNormalization, epsilon=1e-12)
  ids, types = (keras.Input((length,), dtype="int32", name=name) for name in ("ids", "types"))
  mask = keras.Input((length,), dtype="bool", name="mask")
  x = layers.Embedding(words, width, name="word_embeddings")(ids) + layers.Embedding(2, width, name="type_embeddings")(
    types
  )
  x = norm(name="embedding_norm")(Positions(name="position_embeddings")(x))
  for i in range(12):
    attention = layers.MultiHeadAttention(heads, width // heads, name=f"layer_{i}_attention")
    x = norm(name=f"layer_{i}_attention_norm")(x + attention(x, x, attention_mask=mask[:, None, :]))
    hidden = layers.Dense(4 * width, activation="gelu", name=f"layer_{i}_inner")(x)
    x = norm(name=f"layer_{i}_norm")(x + layers.Dense(width, name=f"layer_{i}_outer")(hidden))
  pooled = layers.Dense(width, activation="tanh", name="pooler")(x[:, 0])
  return keras.Model({"ids": ids, "types": types, "mask": mask}, {"sequence": x, "pooled": pooled}, name="bert")


def _application(name: str) -> KerasModel:
  import keras

  images = keras.Input((224, 224, 3), name="images")
  return getattr(keras.applications, name)(weights=None, input_tensor=images)


MODELS: dict[str, Callable[[], KerasModel]] = {
  "lstm_classifier": _lstm_classifier,
  "bert": _bert,
  "resnet50": functools.partial(_application, "ResNet50"),
  "mobilenet_v2": functools.partial(_application, "MobileNetV2"),
}
"""By the names of files, the functions that build models."""


@contextmanager
def exported(name: str) -> Iterator[SavedModel]:
  """Yields a model that Keras exported as a SavedModel."""
  import keras

  keras.backend.clear_session()
  with tempfile.TemporaryDirectory() as folder:
    MODELS[name]().export(str(Path(folder) / "model"), format="tf_saved_model", verbose=False)
    yield load(Path(folder) / "model")


def _text(name: str) -> str:
  with exported(name) as model:
    return signature_source(model).source.text


def main(args: Sequence[str] | None = None) -> int:
  """Runs the command and returns its exit status."""
  module = "graftax.tools.codegen.generate_source_examples"
  return max(
    [
      run_generator(__doc__ or "", module, FOLDER / f"{name}.py", functools.partial(_text, name), args)
      for name in MODELS
    ]
  )


if __name__ == "__main__":
  sys.exit(main())
