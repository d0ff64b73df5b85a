"""Models of equinox, of three packages."""

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
  resnet,
  set_epsilon,
  tokens,
)


def llama_equinox():
  import keras_hub
  from eqx_zoo.models.causal_lm.config import Config
  from eqx_zoo.models.causal_lm.model import DecoderModel

  model = keras_hub.models.LlamaBackbone(
    vocabulary_size=VOCABULARY,
    num_layers=3,
    num_query_heads=4,
    hidden_dim=64,
    intermediate_dim=128,
    num_key_value_heads=2,
  )
  fn, params, arrays = model_of_named_inputs(model, {"token_ids": tokens(), "padding_mask": MASK})
  config = Config(
    architecture="LlamaForCausalLM",
    vocab_size=VOCABULARY,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=16,
    rms_norm_eps=1e-6,
    rope_theta=10000.0,
    tie_word_embeddings=False,
    attention_bias=False,
    qk_norm=False,
    rope_scaling=None,
  )
  causal = jnp.tril(jnp.ones((NUM_TOKENS, NUM_TOKENS), bool))

  def target_fn(target, token_ids, padding_mask):
    return jax.vmap(lambda ids: target(ids, jnp.arange(NUM_TOKENS), causal)[0])(token_ids)

  return Pair(fn, params, DecoderModel(config, key=jax.random.key(0)), target_fn, arrays)


def bert_equinox():
  import keras_hub
  from eqx_zoo.models.encoder.config import EncoderConfig
  from eqx_zoo.models.encoder.model import Encoder

  model = keras_hub.models.BertBackbone(
    vocabulary_size=VOCABULARY,
    num_layers=3,
    num_heads=4,
    hidden_dim=64,
    intermediate_dim=128,
    max_sequence_length=32,
  )
  inputs = {"token_ids": tokens(), "segment_ids": tokens(1, 2), "padding_mask": MASK}
  fn, params, arrays = model_of_named_inputs(model, inputs, ("sequence_output",))
  target = Encoder(EncoderConfig("BertModel", VOCABULARY, 64, 3, 4, 128, 32, 2, 1e-12), key=jax.random.key(0))
  return Pair(fn, params, target, lambda target, ids, types, mask: jax.vmap(target)(ids, mask, types), arrays)


def vit_equinox():
  import keras_hub
  from equimo.vision.models.vit import VisionTransformer

  model = keras_hub.models.ViTBackbone(
    image_shape=(32, 32, 3),
    patch_size=8,
    num_layers=3,
    num_heads=4,
    hidden_dim=64,
    mlp_dim=256,
    layer_norm_epsilon=1e-5,
  )
  x = images(32)
  fn, params = model_of_images(model, x)
  target = VisionTransformer(
    32,
    3,
    64,
    8,
    4,
    [3],
    key=jax.random.key(0),
    reg_tokens=0,
    num_classes=0,
    act_layer=lambda x: jax.nn.gelu(x, approximate=False),
  )

  def one(target, image):
    features = target.features(image.transpose(2, 0, 1), key=jax.random.key(0), inference=True)
    return jax.vmap(target.norm)(features)

  return Pair(fn, params, target, lambda target, x: jax.vmap(lambda image: one(target, image))(x), (x,))


def resnet18_equinox():
  import equinox as eqx
  from jaxonmodels.models.resnet import _resnet18

  x = images(64)
  fn, params = model_of_images(resnet("basic_block", (2, 2, 2, 2), 64), x)
  module, state = _resnet18(jax.random.key(0), 10, jnp.float32)

  def target_fn(target, x):
    module, state = target

    def call(image):
      return module(image.transpose(2, 0, 1), state, inference=True)[0]

    return jax.vmap(call, axis_name="batch")(x)

  return Pair(fn, params, (eqx.nn.inference_mode(module), state), target_fn, (x,))


def efficientnet_equinox():
  import equinox as eqx
  import keras
  from jaxonmodels.models.efficientnet import _efficientnet_b0

  x = images(65)
  model = keras.applications.EfficientNetB0(
    weights=None, input_shape=x.shape[1:], classes=10, classifier_activation=None
  )
  set_epsilon(model, 1e-5)
  fn, params = model_of_images(model, x)
  module, state = _efficientnet_b0(jax.random.key(0), n_classes=10, dtype=jnp.float32)

  def target_fn(target, x):
    module, state = target

    def call(image):
      return module(image.transpose(2, 0, 1) / 255, state, jax.random.key(0))[0]

    return jax.vmap(call, axis_name="batch")(x)

  return Pair(fn, params, (eqx.nn.inference_mode(module), state), target_fn, (x,))
