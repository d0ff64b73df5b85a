"""The pairs: a name for each, what it is of, and the module that makes it.

- `keras_models`: Keras's side.
- `transformers_flax`: against the Flax models of Transformers (linen).
- `equinox_models`: against equimo, eqx-zoo and jaxonmodels.
- `vision`: against dm-haiku, jax-resnet and flaxmodels (linen).
- `recurrent`: recurrent models, against models with cells of equinox and flax.nnx.
- `written_here`: against models of flax.nnx that were written for this suite, in the style of a user.
"""

import importlib

from graftax.testing.matched_models.pair import Pair

__all__ = ["PAIRS", "make_pair"]

_TRANSFORMERS = "Transformers (linen)"

# Name -> what the table says of it; the function of that name makes it.
_MODULES = {
  "transformers_flax": {
    "albert": ("KerasHub ALBERT", _TRANSFORMERS),
    "bart": ("KerasHub BART", _TRANSFORMERS),
    "bert": ("KerasHub BERT", _TRANSFORMERS),
    "bloom": ("KerasHub BLOOM", f"{_TRANSFORMERS}, fused heads"),
    "dinov2": ("KerasHub DINOv2", _TRANSFORMERS),
    "distilbert": ("KerasHub DistilBERT", _TRANSFORMERS),
    "electra": ("KerasHub ELECTRA", _TRANSFORMERS),
    "gemma": ("KerasHub Gemma", _TRANSFORMERS),
    "gpt2": ("KerasHub GPT-2", f"{_TRANSFORMERS}, fused, transposed"),
    "llama": ("KerasHub Llama", _TRANSFORMERS),
    "mistral": ("KerasHub Mistral", _TRANSFORMERS),
    "opt": ("KerasHub OPT", _TRANSFORMERS),
    "resnet": ("KerasHub ResNet", _TRANSFORMERS),
    "roberta": ("KerasHub RoBERTa", _TRANSFORMERS),
    "vit": ("KerasHub ViT", _TRANSFORMERS),
    "whisper": ("KerasHub Whisper", _TRANSFORMERS),
  },
  "vision": {
    "mobilenet_haiku": ("keras.applications MobileNet", "dm-haiku"),
    "resnet50_haiku": ("KerasHub ResNet50", "dm-haiku"),
    "resnet50_linen": ("KerasHub ResNet50", "jax-resnet (linen)"),
    "vgg16_linen": ("keras.applications VGG16", "flaxmodels (linen)"),
  },
  "equinox_models": {
    "bert_equinox": ("KerasHub BERT", "eqx-zoo (equinox)"),
    "efficientnet_equinox": ("keras.applications EfficientNetB0", "jaxonmodels (equinox)"),
    "llama_equinox": ("KerasHub Llama", "eqx-zoo (equinox)"),
    "resnet18_equinox": ("KerasHub ResNet18", "jaxonmodels (equinox)"),
    "vit_equinox": ("KerasHub ViT", "equimo (equinox)"),
  },
  "recurrent": {
    "gru_equinox": ("Keras bidirectional GRU", "equinox's cells (written here)"),
    "lstm_equinox": ("Keras stacked LSTM", "equinox's cells (written here)"),
    "lstm_nnx": ("Keras bidirectional LSTM", "flax.nnx's cells (written here)"),
  },
  "written_here": {
    "mobilenet_v2_nnx": ("keras.applications MobileNetV2", "written here (flax.nnx)"),
    "densenet121_nnx": ("keras.applications DenseNet121", "written here (flax.nnx)"),
  },
}

PAIRS = {name: text for pairs in _MODULES.values() for name, text in pairs.items()}


def make_pair(name: str) -> Pair:
  """Returns a pair. Its libraries are imported now."""
  module = next(module for module, pairs in _MODULES.items() if name in pairs)
  made: Pair = getattr(importlib.import_module(f"{__name__}.{module}"), name)()
  return made
