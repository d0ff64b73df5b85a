"""The wheels resolve to binaries on the systems and Pythons that are promised, and pip is asked what we mean."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cleanroom import ROOT
from resolve_wheels import PYTHONS, SYSTEMS, build_all, failures, requirements, resolve

_PIP = ROOT / "tools/packaging/pip_elsewhere.py"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> Path:
  return build_all(tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="module")
def index(wheels) -> None:
  """Skips tests on machines that reach no package index."""
  if not resolve(wheels, "linux", "3.12", ["numpy"])[0]:
    pytest.skip("pip reaches no package index")


def test_every_extra_of_every_wheel_is_asked_for():
  wanted = requirements()
  assert {"graftax", "graftax[all]", "graftax-convert[text]"} <= {line.partition("==")[0] for line in wanted}
  assert len(wanted) == len(set(wanted)) > 30
  assert requirements(["hub_io"]) == [line for line in wanted if line.startswith("graftax-hub-io")]


@pytest.mark.parametrize("system", SYSTEMS)
def test_markers_are_those_of_the_other_system(wheels, tmp_path, system):
  """Asks pip for a package that is in no index, so that its error names the requirements that it kept."""
  markers = SYSTEMS[system].markers
  lines = [f'of-{name} ; sys_platform == "{other.markers["sys_platform"]}"' for name, other in SYSTEMS.items()]
  (tmp_path / "requirements.txt").write_text("\n".join(lines))
  command = [sys.executable, _PIP, json.dumps(markers), "install", "--dry-run", "--no-index", "--isolated"]
  command += ["-r", tmp_path / "requirements.txt"]
  run = subprocess.run(command, check=False, capture_output=True, text=True)
  assert f"No matching distribution found for of-{system}" in run.stderr
  assert run.stdout.count("Ignoring of-") == 2


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
