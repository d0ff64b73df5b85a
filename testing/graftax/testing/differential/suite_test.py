"""Checks every case of the suite against TensorFlow in this process."""

import pytest

from graftax.testing.differential.case import ConversionCase
from graftax.testing.differential.catalogue import all_cases
from graftax.testing.differential.open_failures import OPEN_FAILURES
from graftax.testing.differential.runner import run_case

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

_CASES = {f"{case.kind}/{case.name}": case for case in all_cases()}


@pytest.mark.filterwarnings("ignore")  # TensorFlow and Keras warn about the cases themselves
@pytest.mark.parametrize("case", _CASES.values(), ids=_CASES.keys())
def test_converted_programs_equal_tensorflow(case: ConversionCase):
  known = OPEN_FAILURES.get(f"{case.kind}/{case.name}")
  failed = {result.check: result.detail for result in run_case(case) if not result.passed}
  unexpected = {check: detail for check, detail in failed.items() if known is None or check not in known.checks}
  assert not unexpected
  assert failed.keys() == (known.checks if known else set()), "a listed check passes: remove it from OPEN_FAILURES"


def test_open_failures_are_of_programs_that_exist():
  for name, failure in OPEN_FAILURES.items():
    assert failure.checks <= set(_CASES[name].checks)
