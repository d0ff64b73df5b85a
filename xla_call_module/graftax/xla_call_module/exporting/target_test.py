import importlib.metadata

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graftax.xla_call_module import VersionError
from graftax.xla_call_module.exporting import Target, export_call_module, target


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
  assert Target.of(None) == Target("tensorflow-2.21", (1, 13, 7), 10, may_be_older=True)


def test_nightlies_that_are_newer_than_the_table_get_its_newest_row(monkeypatch):
  _installed(monkeypatch, {"tf-nightly": "2.99.0.dev20261101"})
  assert Target.of(None) == Target("tensorflow-2.99", (1, 13, 7), 10, may_be_older=True)


def test_releases_that_are_newer_than_the_table_get_its_newest_row():
  assert Target.of("tensorflow-9.9") == Target("tensorflow-9.9", (1, 13, 7), 10)


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


@pytest.mark.parametrize(
  ("function", "name"),
  [
    (lambda x: jnp.exp(x) @ jnp.sort(x), "tensorflow-2.16"),
    (lambda x: lax.dot(x, x, precision=lax.DotAlgorithmPreset.F32_F32_F32), "tensorflow-2.18"),
    (lambda x: lax.exp(x, accuracy=lax.AccuracyMode.HIGHEST), "tensorflow-2.19"),
    (lambda x: x.astype(jnp.float4_e2m1fn).astype(np.float32), "tensorflow-2.19"),
  ],
)
def test_a_module_is_written_for_the_oldest_release_that_has_everything_in_it(function, name, monkeypatch):
  _installed(monkeypatch, {"tensorflow": "2.21.0"})
  spec = jax.ShapeDtypeStruct((3, 3), np.float32)
  module = export_call_module(lambda x: [function(x)], [spec])
  assert (module.target.name, module.attributes["version"]) == (name, 9)
  assert f"StableHLO_v{Target.of(name).stablehlo_text}\0".encode() in module.attributes["module"]
  newest = export_call_module(lambda x: [function(x)], [spec], target="tensorflow-2.21")
  assert newest.target.name == "tensorflow-2.21" and newest.attributes["version"] == 10
