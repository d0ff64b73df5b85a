import pytest

from graftax.tools.codegen import generate_cpu_kernels

# The command asks TensorFlow for its kernels.
pytestmark = pytest.mark.tensorflow


def test_the_table_is_that_of_the_installed_tensorflow():
  assert generate_cpu_kernels.main(["--check"]) == 0
