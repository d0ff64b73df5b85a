"""The wheels resolve to binaries on the systems and Pythons that are promised."""

from pathlib import Path

import pytest
from resolve_wheels import PYTHONS, SYSTEMS, build_all, failures, requirements, resolve


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> Path:
  return build_all(tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="module")
def index(wheels) -> None:
  """Skips tests on machines that reach no package index."""
  if not resolve(wheels, "linux", "3.12", ["numpy"])[0]:
    pytest.skip("uv reaches no package index")


def test_every_extra_of_every_wheel_is_asked_for():
  wanted = requirements()
  assert {"graftax", "graftax[all]", "graftax-convert[text]"} <= {line.partition("==")[0] for line in wanted}
  assert len(wanted) == len(set(wanted)) > 30
  assert requirements(["hub_io"]) == [line for line in wanted if line.startswith("graftax-hub-io")]


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
def test_markers_are_those_of_the_other_system(wheels, index, system):
  """Asks for packages that are in no index, so that the reason names the one whose marker is true."""
  platforms = {"linux": "linux", "macos": "darwin", "windows": "win32"}
  wanted = [f'graftax-of-{name} ; sys_platform == "{platform}"' for name, platform in platforms.items()]
  resolved, reason = resolve(wheels, system, "3.12", wanted)
  assert not resolved
  assert [name for name in platforms if f"graftax-of-{name}" in reason] == [system]


@pytest.mark.slow
def test_what_has_no_binary_is_reported(wheels, index):
  resolved, reason = resolve(wheels, "windows", "3.13", ["tensorflow-text>=2.21"])
  assert not resolved
  assert "tensorflow-text" in reason


@pytest.mark.slow
@pytest.mark.parametrize("python", (PYTHONS[0], PYTHONS[-1]))
@pytest.mark.parametrize("system", SYSTEMS)
def test_every_wheel_resolves_with_every_extra(wheels, index, system, python):
  """Those between are resolved by `make resolve-wheels`."""
  assert not list(failures(wheels, system, python, requirements()))
