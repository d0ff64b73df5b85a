"""Tests all of keras.applications: each model is loaded and converted without TensorFlow and compared with its results.

The larger models (`HEAVY`) have the same ops as the smaller ones and take half an hour, so they run only if
GRAFTAX_ALL_APPLICATIONS is set, as `make applications` does.
"""

import os
import re

import keras
import pytest

from graftax.testing.keras_applications import APPLICATIONS, HEAVY, checker, export_model

pytestmark = pytest.mark.slow

_RUN_ALL = bool(os.environ.get("GRAFTAX_ALL_APPLICATIONS"))
_TABLE = [
  pytest.param(
    application,
    id=application.name,
    marks=pytest.mark.skipif(application.name in HEAVY and not _RUN_ALL, reason="larger sibling: make applications"),
  )
  for application in APPLICATIONS
]


@pytest.fixture(scope="module")
def child():
  with checker() as process:
    yield process


@pytest.mark.parametrize("application", _TABLE)
def test_converted_model_computes_tensorflows_numbers(application, child, tmp_path):
  export_model(application, tmp_path)
  checked = child.check(tmp_path)
  assert checked.output_error < 1e-4
  if application.gradient:
    assert checked.gradient_error is not None and checked.gradient_error < 1e-3


def test_the_table_names_every_model_that_keras_ships():
  ours = {application.name for application in APPLICATIONS}
  keras_names = {name for name in dir(keras.applications) if re.fullmatch(r"[A-Z]\w+", name)}
  assert ours == keras_names


def test_gradients_are_compared_for_at_least_three_models():
  assert sum(application.gradient for application in APPLICATIONS) >= 3
