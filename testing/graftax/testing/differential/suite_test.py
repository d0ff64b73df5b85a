"""Checks every case of the suite against TensorFlow in this process."""

import pytest

from graftax.testing.differential.open_failures import OPEN_FAILURES
from graftax.testing.differential.runner import run_case
from graftax.testing.harness.conversion_case import ConversionCase
from graftax.testing.tensorflow_programs.catalogue import all_cases

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


def _for_circle() -> dict[str, ConversionCase]:
  """Returns, for each kind, the first case with a gradient of inputs and the first one with a gradient of variables."""
  found: dict[tuple[str, str], str] = {}
  for name, case in _CASES.items():
    checks = [check for check in ("grad", "param_grad") if check in case.checks] or ["jit"]
    for check in checks:
      found.setdefault((case.kind, check), name)
  kinds = {kind for kind, check in found if check != "jit"}
  return {name: _CASES[name] for (kind, check), name in found.items() if check != "jit" or kind not in kinds}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", _for_circle().values(), ids=_for_circle().keys())
def test_programs_come_back_from_a_saved_model(case: ConversionCase):
  assert not [result for result in run_case(case, checks=["circle"]) if not result.passed]


def test_open_failures_are_of_programs_that_exist():
  for name, failure in OPEN_FAILURES.items():
    assert failure.checks <= set(_CASES[name].checks)
