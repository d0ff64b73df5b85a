import pytest

from graftax.tools.codegen import generate_tensorflow_versions

# The command imports TensorFlow in a process of its own.
pytestmark = pytest.mark.tensorflow


@pytest.mark.slow
def test_table_has_the_installed_tensorflow():
  assert generate_tensorflow_versions.main(["--check"]) == 0


def test_rows_are_sorted_and_the_text_is_a_module():
  table = {(2, 20): ((1, 12, 1), 10), (2, 9): ((0, 9, 0), 4)}
  namespace = {}
  text = generate_tensorflow_versions.format_table(table)
  exec(text, namespace)
  assert list(namespace["TENSORFLOW_VERSIONS"].items()) == sorted(table.items())
