"""The models of the zoo against TensorFlow, from SavedModels."""

import pytest

from graftax.testing.harness.conversion_case import ConversionCase
from graftax.testing.harness.results import CheckResult
from graftax.testing.tensorflow_programs.catalogue import DOMAINS, all_models, installed_models
from graftax.testing.tensorflow_programs.layers import HOST
from graftax.testing.zoo.check import Row, check_model
from graftax.testing.zoo.report import failures, table

pytestmark = pytest.mark.tensorflow

_MODELS = installed_models()
# One model with a gradient, and one for the host.
_FAST = ("generalized_advantages", "nnlm_with_hash_buckets")


@pytest.mark.filterwarnings("ignore")  # TensorFlow and Keras warn about the models themselves
@pytest.mark.parametrize("name", _FAST)
def test_small_models_equal_tensorflow(name: str):
  _check(_MODELS[name])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(all_models().keys() - set(_FAST)))
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
  assert {model.kind for model in models.values()} == set(DOMAINS)
  assert len(models) >= 40


def test_a_failed_check_and_a_wrong_trace_are_reported():
  results = {check: CheckResult("net", "vision", check, check != "jit", "off") for check in ("value", "jit")}
  row = Row("net", "vision", 3, (), results, 0.5, None, "", {})
  assert failures(row) == "vision/net jit: off\nnet trace does not agree with jit: no problem"
  assert table([row]).splitlines()[2] == "| vision: net | 3 |  | yes | FAILS |  |  |  |  | yes, WRONG | 0.5 |"
