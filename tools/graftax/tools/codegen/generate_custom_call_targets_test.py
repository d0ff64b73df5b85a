import pytest

from graftax.tools.codegen import generate_custom_call_targets

# The command runs each candidate in TensorFlow.
pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]


def test_the_row_is_that_of_the_installed_tensorflow():
  assert generate_custom_call_targets.main(["--check"]) == 0
