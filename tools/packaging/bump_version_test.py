"""All places that name the version agree, and one command changes them together."""

import datetime
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from build_wheel import build
from bump_version import new_texts, problems, project_files, roll
from cleanroom import PACKAGES, ROOT

_DATE = datetime.date(2026, 12, 1)
_UMBRELLA = ROOT / "tools/packaging/umbrella"


@pytest.fixture
def tree(tmp_path) -> Path:
  """Returns a copy of the files that a new version changes."""
  for path in new_texts(ROOT, "99.0.0", _DATE):
    target = tmp_path / path.relative_to(ROOT)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)
  return tmp_path


def _current_version() -> str:
  return tomllib.loads((_UMBRELLA / "pyproject.toml").read_text())["project"]["version"]


def test_all_places_name_one_version():
  assert not [p for p in problems(ROOT, _current_version()) if "CHANGELOG" not in p]


def test_a_bumped_tree_is_ready_for_its_release(tree):
  assert list(problems(tree, "0.7.3"))
  for path, text in new_texts(tree, "0.7.3", _DATE).items():
    path.write_text(text)
  assert not list(problems(tree, "0.7.3"))
  text = (tree / "convert/pyproject.toml").read_text()
  assert '"graftax-ops-jax>=0.7.3,<0.8"' in text
  assert "jax>=0.10" in text  # only siblings change
  assert '"graftax-tools==0.7.3"' in (tree / "tools/packaging/umbrella/pyproject.toml").read_text()
  assert "## 0.7.3 (2026-12-01)" in (tree / "hub_io/CHANGELOG.md").read_text()


def test_each_wheel_has_a_changelog_and_a_version():
  assert {p.parent.name for p in project_files(ROOT)} == {*PACKAGES, "umbrella"}
  assert all((ROOT / package / "CHANGELOG.md").exists() for package in PACKAGES)


def test_links_that_bazel_makes_are_not_packages(tree):
  (tree / "bazel-out").symlink_to(tree / "convert", target_is_directory=True)
  assert not [p for p in new_texts(tree, "0.7.3", _DATE) if "bazel-out" in p.parts]


def test_rolling_keeps_entries_and_starts_a_new_section():
  changelog = "# Changelog\n\n## Unreleased\n\n- A.\n\n## 0.1.0 (2026-01-01)\n\n- B.\n"
  rolled = roll(changelog, "0.2.0", _DATE)
  assert rolled == ("# Changelog\n\n## Unreleased\n\n## 0.2.0 (2026-12-01)\n\n- A.\n\n## 0.1.0 (2026-01-01)\n\n- B.\n")


def test_a_package_without_changes_says_so():
  assert "## 0.2.0 (2026-12-01)\n\nNo changes.\n" in roll("# Changelog\n\n## Unreleased\n", "0.2.0", _DATE)


def test_a_version_is_released_once():
  rolled = roll("## Unreleased\n", "0.2.0", _DATE)
  with pytest.raises(ValueError, match=re.escape("a section of version 0.2.0 already")):
    roll(rolled, "0.2.0", _DATE)


def test_a_strange_version_is_refused():
  with pytest.raises(ValueError, match="'v2' is not MAJOR.MINOR.PATCH"):
    new_texts(ROOT, "v2", _DATE)


def test_the_umbrella_has_an_extra_with_every_package():
  extras = tomllib.loads((_UMBRELLA / "pyproject.toml").read_text())["project"]["optional-dependencies"]
  names = {line.partition("==")[0] for line in extras["all"]}
  assert names == {f"graftax-{p.replace('_', '-')}" for p in PACKAGES}


def test_the_command_runs_as_a_module(tmp_path):
  command = [sys.executable, "-m", "graftax", "--help"]
  paths = ":".join(str(ROOT / p) for p in PACKAGES)
  run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=_UMBRELLA, env={"PYTHONPATH": paths})
  assert "inspect" in run.stdout, run.stderr


def test_the_wheel_of_a_source_archive_is_the_wheel(tmp_path):
  archive = build(ROOT / "hub_io", tmp_path, sdist=True)
  shutil.unpack_archive(archive, tmp_path, filter="data")
  (unpacked,) = tmp_path.glob("graftax_hub_io-*/")
  rebuilt = build(unpacked, tmp_path / "again", unpacked / "LICENSE")
  assert rebuilt.read_bytes() == build(ROOT / "hub_io", tmp_path).read_bytes()
