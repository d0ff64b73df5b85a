"""The versions that the matrix tries."""

import sys

from version_matrix import choose_versions, find_pythons


def test_the_oldest_and_the_newest_patches_are_tried():
  listed = ["0.12.0.1", "0.12.0", "0.11.0rc1", "0.10.2", "0.10.1", "0.10.0", "0.9.2", "0.9.0.1"]
  assert choose_versions(listed) == ["0.10.0", "0.10.2", "0.12.0.1"]


def test_interpreters_are_found_by_their_version():
  version = f"{sys.version_info[0]}.{sys.version_info[1]}"
  assert version in find_pythons((version,))
  assert not find_pythons(("3.99",))
