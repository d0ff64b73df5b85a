import importlib.metadata

import pytest

from graftax.xla_call_module import VersionError
from graftax.xla_call_module.exporting import Target, target


def _installed(monkeypatch, versions):
  def version(name):
    if name not in versions:
      raise importlib.metadata.PackageNotFoundError(name)
    return versions[name]

  monkeypatch.setattr(target.importlib.metadata, "version", version)


def test_patch_releases_share_the_row_of_their_release():
  assert Target.of("tensorflow-2.16.2").stablehlo_text == "0.17.7"
  assert Target.of("tensorflow-2.16").call_module_version == 9


def test_none_is_the_installed_tensorflow(monkeypatch):
  _installed(monkeypatch, {"tensorflow-cpu": "2.18.1"})
  assert Target.of(None).name == "tensorflow-2.18"


def test_none_without_tensorflow_is_the_newest_release(monkeypatch):
  _installed(monkeypatch, {})
  assert Target.of(None) == Target("tensorflow-2.21", (1, 13, 7), 10)


def test_nightlies_that_are_newer_than_the_table_get_its_newest_row(monkeypatch):
  _installed(monkeypatch, {"tf-nightly": "2.99.0.dev20261101"})
  assert Target.of(None) == Target("tensorflow-2.99", (1, 13, 7), 10)


def test_tensorflow_older_than_the_table_raises(monkeypatch):
  _installed(monkeypatch, {"tensorflow": "2.9.0"})
  with pytest.raises(VersionError, match=r"installed TensorFlow is release 2\.9.*2\.15 and newer"):
    Target.of(None)
  with pytest.raises(VersionError, match="'tensorflow-1.15' is release 1.15"):
    Target.of("tensorflow-1.15")


@pytest.mark.parametrize("name", ["2.16", "tensorflow", "tensorflow-2", "jax-0.4", "", 2.16])
def test_unknown_names_raise(name):
  with pytest.raises(VersionError, match=r"not known; expected None, a Target, or a name from 'tensorflow-2.15'"):
    Target.of(name)


@pytest.mark.parametrize("version", ["1.9", "v1.9.1", (1, 9), None, "1.9.x", 1.9])
def test_malformed_versions_of_stablehlo_raise(version):
  with pytest.raises(VersionError, match="Target 'mine': stablehlo_version="):
    Target("mine", version, 9)


@pytest.mark.parametrize("version", [7, "9", None, True, 9.0])
def test_malformed_versions_of_the_node_raise(version):
  with pytest.raises(VersionError, match=f"Target 'mine': call_module_version={version!r}"):
    Target("mine", "1.9.1", version)
