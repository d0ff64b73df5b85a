"""Checks every program of the suite against TensorFlow in this process."""

import pytest

from graftax.testing.differential.catalogue import all_programs
from graftax.testing.differential.open_failures import OPEN_FAILURES
from graftax.testing.differential.program import Program
from graftax.testing.differential.runner import run_program

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

_PROGRAMS = {f"{program.kind}/{program.name}": program for program in all_programs()}


@pytest.mark.filterwarnings("ignore")  # TensorFlow and Keras warn about the programs themselves
@pytest.mark.parametrize("program", _PROGRAMS.values(), ids=_PROGRAMS.keys())
def test_converted_programs_equal_tensorflow(program: Program):
  known = OPEN_FAILURES.get(f"{program.kind}/{program.name}")
  failed = {result.check: result.detail for result in run_program(program) if not result.passed}
  unexpected = {check: detail for check, detail in failed.items() if known is None or check not in known.checks}
  assert not unexpected
  assert failed.keys() == (known.checks if known else set()), "a listed check passes: remove it from OPEN_FAILURES"


def test_open_failures_are_of_programs_that_exist():
  for name, failure in OPEN_FAILURES.items():
    assert failure.checks <= set(_PROGRAMS[name].checks)
