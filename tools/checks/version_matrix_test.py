"""The versions that the matrix tries."""

import sys

from version_matrix import choose_versions, find_pythons, summary_of_tests


def test_the_oldest_and_the_newest_patches_are_tried():
  listed = ["0.12.0.1", "0.12.0", "0.11.0rc1", "0.10.2", "0.10.1", "0.10.0", "0.9.2", "0.9.0.1"]
  assert choose_versions(listed) == ["0.10.0", "0.10.2", "0.12.0.1"]


def test_interpreters_are_found_by_their_version():
  version = f"{sys.version_info[0]}.{sys.version_info[1]}"
  assert version in find_pythons((version,))
  assert not find_pythons(("3.99",))


def test_a_summary_names_the_tests_that_failed():
  text = "..F\nFAILED tests/a_test.py::test_a - assert 1 == 2\n==== 1 failed, 2 passed in 3.00s ====\n"
  assert summary_of_tests(text) == "1 failed, 2 passed in 3.00s, FAILED tests/a_test.py::test_a"
