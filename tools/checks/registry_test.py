"""The files for the Bazel Central Registry have the form that it asks for, and name what is in the tree.

Its own checks (`bcr_validation`) fetch the archive of a release, so they run only once there is one.
"""

import json
import re
import tomllib

import yaml
from cleanroom import ROOT

_BCR = ROOT / ".bcr"


def _json(name: str) -> dict:
  return json.loads((_BCR / name).read_text(encoding="utf-8"))


def _presubmit() -> dict:
  return yaml.safe_load((_BCR / "presubmit.yml").read_text(encoding="utf-8"))


def test_the_metadata_has_the_fields_of_the_registrys_schema():
  metadata = _json("metadata.template.json")
  assert set(metadata) == {"homepage", "maintainers", "repository", "versions", "yanked_versions"}
  homepage = tomllib.loads((ROOT / "convert/pyproject.toml").read_text())["project"]["urls"]["Homepage"]
  assert metadata["homepage"] == homepage
  assert metadata["repository"] == [homepage.replace("https://github.com/", "github:")]
  # publish-to-bcr fills these in.
  assert metadata["versions"] == []
  assert metadata["yanked_versions"] == {}


def test_the_source_is_an_archive_of_a_release_and_not_one_that_the_host_makes_anew():
  source = _json("source.template.json")
  assert set(source) == {"integrity", "strip_prefix", "url"}
  assert source["url"].startswith("https://github.com/{OWNER}/{REPO}/releases/download/{TAG}/")


def test_the_presubmit_names_libraries_of_the_tree():
  presubmit = _presubmit()
  for target in presubmit["tasks"]["verify_targets"]["build_targets"]:
    folder = target.removeprefix("@graftax_repo//")
    assert f'name = "{folder}"' in (ROOT / folder / "BUILD").read_text()


def test_the_presubmit_runs_on_the_bazels_that_the_module_allows():
  assert _presubmit()["matrix"]["bazel"] == ["7.x", "8.x"]
  assert 'bazel_compatibility = [">=7.0.0"]' in (ROOT / "MODULE.bazel").read_text()


def test_the_module_can_be_published():
  """Modules of the registry depend only on others there; overrides are for root modules."""
  text = (ROOT / "MODULE.bazel").read_text()
  assert not re.search(r"\b\w+_override\(", text)
  assert re.search(r"compatibility_level = \d+", text)
  assert re.search(r"register_toolchains\([^)]*dev_dependency = True", text)
