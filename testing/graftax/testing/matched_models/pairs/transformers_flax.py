"""KerasHub's backbones against the Flax models of Transformers."""

import importlib

import jax
import jax.numpy as jnp

from graftax.testing.matched_models.pair import Pair
from graftax.testing.matched_models.pairs.keras_models import (
  MASK,
  NUM_TOKENS,
  VOCABULARY,
  images,
  model_of_images,
  model_of_named_inputs,
  tokens,
)
from graftax.testing.matched_models.pairs.keras_models import (
  resnet as keras_resnet,
)

_POSITIONS = jnp.broadcast_to(jnp.arange(NUM_TOKENS), (2, NUM_TOKENS))
_KERAS = {"vocabulary_size": VOCABULARY, "num_layers": 3, "hidden_dim": 64, "intermediate_dim": 128}
_SIZES = {"vocab_size": VOCABULARY, "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4}


def _hub():
  import keras_hub

  return keras_hub


def _module(name, kind, config, **options):
  module = importlib.import_module(f"transformers.models.{name}.modeling_flax_{name}")
  return getattr(module, f"Flax{kind}Module")(
    getattr(importlib.import_module("transformers"), f"{kind}Config")(**config), **options
  )


def _pair(model, inputs, module, call, outputs=None):
  """Returns a pair of a model of tokens; `call(apply, *arrays)` calls the other model."""
  fn, params, arrays = model_of_named_inputs(model, inputs, outputs)
  variables = call(
    lambda *args, **kwargs: jax.jit(module.init, static_argnames=("deterministic",))(
      jax.random.key(0), *args, **kwargs
    ),
    *arrays,
    None,
  )["params"]

  def target_fn(variables, *args):
    return call(lambda *a, **k: module.apply({"params": variables}, *a, **k, deterministic=True), *args, lambda r: r)

  return Pair(fn, params, variables, target_fn, arrays)


def _bert_inputs():
  return {"token_ids": tokens(), "segment_ids": tokens(1, 2), "padding_mask": MASK}


def _text_inputs():
  return {"token_ids": tokens(), "padding_mask": MASK}


def _sequences(result, finish):
  return result if finish is None else (result.encoder_last_hidden_state, result.last_hidden_state)


def _hidden(result, finish):
  return result if finish is None else result.last_hidden_state


def _with_pooled(result, finish):
  return result if finish is None else (result.last_hidden_state, result.pooler_output)


def bert():
  model = _hub().models.BertBackbone(**_KERAS, num_heads=4, max_sequence_length=32)
  config = {**_SIZES, "intermediate_size": 128, "max_position_embeddings": 32, "hidden_act": "gelu_new"}
  module = _module("bert", "Bert", config)
  return _pair(
    model,
    _bert_inputs(),
    module,
    lambda f, i, s, m, end: _with_pooled(f(i, m, s, _POSITIONS, jnp.ones((3, 4))), end),
    ("sequence_output", "pooled_output"),
  )


def albert():
  model = _hub().models.AlbertBackbone(**_KERAS, num_heads=4, embedding_dim=32, max_sequence_length=32)
  config = {**_SIZES, "embedding_size": 32, "intermediate_size": 128, "max_position_embeddings": 32}
  module = _module("albert", "Albert", {**config, "hidden_act": "gelu_new"})
  return _pair(
    model,
    _bert_inputs(),
    module,
    lambda f, i, s, m, end: _with_pooled(f(i, m, s, _POSITIONS), end),
    ("sequence_output", "pooled_output"),
  )


def electra():
  sizes = {key: value for key, value in _KERAS.items() if key != "vocabulary_size"}
  model = _hub().models.ElectraBackbone(
    **sizes, vocab_size=VOCABULARY, num_heads=4, embedding_dim=32, max_sequence_length=32
  )
  config = {**_SIZES, "embedding_size": 32, "intermediate_size": 128, "max_position_embeddings": 32}
  module = _module("electra", "Electra", {**config, "hidden_act": "gelu_new"})
  return _pair(
    model,
    _bert_inputs(),
    module,
    lambda f, i, s, m, end: _hidden(f(i, m, s, _POSITIONS, jnp.ones((3, 4))), end),
    ("sequence_output",),
  )


def distilbert():
  model = _hub().models.DistilBertBackbone(**_KERAS, num_heads=4, max_sequence_length=32)
  config = {"vocab_size": VOCABULARY, "dim": 64, "hidden_dim": 128, "n_layers": 3, "n_heads": 4}
  module = _module("distilbert", "DistilBert", {**config, "max_position_embeddings": 32})
  return _pair(model, _text_inputs(), module, lambda f, i, m, end: _hidden(f(i, m), end))


def roberta():
  model = _hub().models.RobertaBackbone(**_KERAS, num_heads=4, max_sequence_length=32)
  config = {**_SIZES, "intermediate_size": 128, "max_position_embeddings": 32, "type_vocab_size": 1}
  module = _module("roberta", "Roberta", {**config, "layer_norm_eps": 1e-5}, add_pooling_layer=False)
  pair = _pair(
    model,
    _text_inputs(),
    module,
    lambda f, i, m, end: _hidden(f(i, m, jnp.zeros_like(i), _POSITIONS, jnp.ones((3, 4))), end),
  )
  # Keras's model has no table of the only type of tokens.
  types = pair.target["embeddings"]["token_type_embeddings"]
  types["embedding"] = jnp.zeros_like(types["embedding"])
  return pair


def gpt2():
  model = _hub().models.GPT2Backbone(**{**_KERAS, "intermediate_dim": 256}, num_heads=4, max_sequence_length=32)
  config = {"vocab_size": VOCABULARY, "n_embd": 64, "n_layer": 3, "n_head": 4, "n_inner": 256, "n_positions": 32}
  module = _module("gpt2", "GPT2", config)
  return _pair(model, _text_inputs(), module, lambda f, i, m, end: _hidden(f(i, m, _POSITIONS), end))


def bloom():
  model = _hub().models.BloomBackbone(**{**_KERAS, "intermediate_dim": 256}, num_heads=4)
  module = _module("bloom", "Bloom", {"vocab_size": VOCABULARY, "hidden_size": 64, "n_layer": 3, "n_head": 4})
  return _pair(model, _text_inputs(), module, lambda f, i, m, end: _hidden(f(i, m), end))


def opt():
  # The first two rows of Transformers' table are for no position.
  model = _hub().models.OPTBackbone(**_KERAS, num_heads=4, max_sequence_length=34)
  config = {**_SIZES, "ffn_dim": 128, "max_position_embeddings": 32, "word_embed_proj_dim": 64}
  module = _module("opt", "OPT", config)
  return _pair(model, _text_inputs(), module, lambda f, i, m, end: _hidden(f(i, m, _POSITIONS - 2), end))


def _llama_like(name, kind, backbone):
  model = backbone(**_KERAS, num_query_heads=4, num_key_value_heads=2)
  config = {**_SIZES, "intermediate_size": 128, "num_key_value_heads": 2, "max_position_embeddings": 32}
  module = _module(name, kind, {**config, "rms_norm_eps": 1e-6})
  return _pair(model, _text_inputs(), module, lambda f, i, m, end: _hidden(f(i, m, _POSITIONS), end))


def llama():
  return _llama_like("llama", "Llama", _hub().models.LlamaBackbone)


def mistral():
  return _llama_like("mistral", "Mistral", _hub().models.MistralBackbone)


def gemma():
  model = _hub().models.GemmaBackbone(
    **{**_KERAS, "intermediate_dim": 256}, num_query_heads=4, num_key_value_heads=1, head_dim=16
  )
  config = {**_SIZES, "intermediate_size": 128, "num_key_value_heads": 1, "head_dim": 16}
  module = _module("gemma", "Gemma", {**config, "max_position_embeddings": 32})
  return _pair(model, _text_inputs(), module, lambda f, i, m, end: _hidden(f(i, m, _POSITIONS), end))


def bart():
  model = _hub().models.BartBackbone(**{**_KERAS, "num_layers": 2}, num_heads=4, max_sequence_length=34)
  module = _module("bart", "Bart", {**_encoder_decoder(), "max_position_embeddings": 32})
  inputs = {
    "encoder_token_ids": tokens(),
    "encoder_padding_mask": MASK,
    "decoder_token_ids": tokens(1),
    "decoder_padding_mask": MASK,
  }
  return _pair(
    model,
    inputs,
    module,
    lambda f, i, m, d, dm, end: _sequences(f(i, m, d, dm, _POSITIONS - 2, _POSITIONS - 2), end),
    ("encoder_sequence_output", "decoder_sequence_output"),
  )


def whisper():
  model = _hub().models.WhisperBackbone(
    **{**_KERAS, "num_layers": 2},
    num_heads=4,
    num_mels=20,
    max_encoder_sequence_length=32,
    max_decoder_sequence_length=NUM_TOKENS,
  )
  sizes = {"num_mel_bins": 20, "max_source_positions": 16, "max_target_positions": NUM_TOKENS, "pad_token_id": 1}
  module = _module("whisper", "Whisper", {**_encoder_decoder(), **sizes})
  inputs = {
    "encoder_features": images(32)[:, :, :20, 0],
    "decoder_token_ids": tokens(),
    "decoder_padding_mask": MASK,
  }
  return _pair(
    model,
    inputs,
    module,
    lambda f, x, d, m, end: _sequences(f(x.transpose(0, 2, 1), d, m, _POSITIONS), end),
    ("encoder_sequence_output", "decoder_sequence_output"),
  )


def _encoder_decoder():
  sides = ("encoder", "decoder")
  sizes = {"vocab_size": VOCABULARY, "d_model": 64}
  for side in sides:
    sizes |= {f"{side}_ffn_dim": 128, f"{side}_layers": 2, f"{side}_attention_heads": 4}
  return sizes


def _vision_pair(model, size, module, finish, variables_of):
  x = images(size)
  fn, params = model_of_images(model, x)
  variables = jax.jit(module.init)(jax.random.key(0), x)
  target = variables["params"] if variables_of == "params" else variables

  def target_fn(target, x):
    return finish(module.apply({"params": target} if variables_of == "params" else target, x, deterministic=True))

  return Pair(fn, params, target, target_fn, (x,))


def vit():
  model = _hub().models.ViTBackbone(
    image_shape=(32, 32, 3), patch_size=8, num_layers=3, num_heads=4, hidden_dim=64, mlp_dim=128
  )
  config = {"image_size": 32, "patch_size": 8, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3}
  module = _module("vit", "ViT", {**config, "num_attention_heads": 4, "layer_norm_eps": 1e-6}, add_pooling_layer=False)
  return _vision_pair(model, 32, module, lambda r: r.last_hidden_state, "params")


def dinov2():
  model = _hub().models.DINOV2Backbone(
    patch_size=8,
    num_layers=3,
    hidden_dim=64,
    num_heads=4,
    intermediate_dim=256,
    image_shape=(32, 32, 3),
    position_embedding_shape=(32, 32, 3),
  )
  config = {"image_size": 32, "patch_size": 8, "hidden_size": 64, "mlp_ratio": 4, "num_hidden_layers": 3}
  module = _module("dinov2", "Dinov2", {**config, "num_attention_heads": 4, "layer_norm_eps": 1e-6})
  return _vision_pair(model, 32, module, lambda r: r.last_hidden_state, "params")


def resnet():
  model = keras_resnet("bottleneck_block", (2, 3, 2), 64, num_filters=(64, 128, 256), classes=0)
  config = {"embedding_size": 64, "hidden_sizes": [256, 512, 1024], "depths": [2, 3, 2], "layer_type": "bottleneck"}
  module = _module("resnet", "ResNet", config)
  return _vision_pair(model, 64, module, lambda r: r.last_hidden_state.transpose(0, 2, 3, 1), "variables")
