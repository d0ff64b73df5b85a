"""The models of the zoo against TensorFlow, from SavedModels."""

import pytest

from graftax.testing.differential.case import ConversionCase
from graftax.testing.differential.runner import CheckResult
from graftax.testing.zoo.catalogue import DOMAINS, all_models, installed_models
from graftax.testing.zoo.check import Row, check_model
from graftax.testing.zoo.layers import HOST
from graftax.testing.zoo.report import failures, table

pytestmark = pytest.mark.tensorflow

_MODELS = installed_models()
# One model with a gradient, and one for the host.
_FAST = ("generalized_advantages", "nnlm_with_hash_buckets")
# Some of each domain, four minutes in all; `python -m graftax.testing.zoo` checks all models, in half an hour.
_SLOW = (
  "source_separation", "speech_recognition_with_ctc", "vggish_with_frames",
  "efficientdet_with_soft_nms", "faster_rcnn_of_tf1", "ssd_of_tf1_with_a_loop_over_images", "ssd_with_combined_nms",
  "diffusion_step_of_a_unet", "variational_autoencoder", "vector_quantized_codes",
  "graph_convolution_with_a_sparse_matrix", "message_passing",
  "hamiltonian_monte_carlo", "special_distributions",
  "gradient_boosted_trees", "recommender_with_string_lookup", "two_towers_with_brute_force",
  "wide_and_deep_with_crossed_columns",
  "recurrent_policy_with_state", "soft_actor_with_squashed_normal",
  "deeplab", "style_transfer", "super_resolution",
  "decoder_with_beam_search", "keras_conv_lstm", "seq2seq_with_attention", "transformer_xl",
  "keras_text_vectorization_classifier", "ragged_bags_of_words", "universal_sentence_encoder",
  "bert_with_wordpiece", "encoder_with_fast_wordpiece", "multilingual_encoder_with_sentencepiece",
  "pointnet", "siamese_network",
)  # fmt: skip


@pytest.mark.filterwarnings("ignore")  # TensorFlow and Keras warn about the models themselves
@pytest.mark.parametrize("name", _FAST)
def test_small_models_equal_tensorflow(name: str):
  _check(_MODELS[name])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", _SLOW)
def test_models_equal_tensorflow(name: str):
  if name not in _MODELS:
    pytest.skip("tensorflow-text or sentencepiece is not installed")
  _check(_MODELS[name], trace=True)


def _check(model: ConversionCase, trace: bool = False) -> None:
  row = check_model(model, trace=trace)
  assert not failures(row)
  assert bool(row.missing) == (model.checks == HOST)


def test_every_domain_has_models():
  models = all_models()
  assert {models[name].kind for name in (*_FAST, *_SLOW)} == {model.kind for model in models.values()} == set(DOMAINS)
  assert len(models) >= 40


def test_a_failed_check_and_a_wrong_trace_are_reported():
  results = {check: CheckResult("net", "vision", check, check != "jit", "off") for check in ("value", "jit")}
  row = Row("net", "vision", 3, (), results, 0.5, None, "", {})
  assert failures(row) == "net jit: off\nnet trace does not agree with jit: no problem"
  assert table([row]).splitlines()[2] == "| vision: net | 3 |  | yes | FAILS |  |  |  |  | yes, WRONG | 0.5 |"
