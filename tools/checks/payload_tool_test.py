"""The tool in examples/bazel_embedder/payload_tool, with the wheel of xla_call_module and no other part of graftax."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile

import pytest
from build_wheel import build
from cleanroom import ROOT

_TOOL = ROOT / "examples" / "bazel_embedder" / "payload_tool"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
  """A folder with the two wheels unpacked, as pip would."""
  folder = tmp_path_factory.mktemp("site")
  files = [path.relative_to(_TOOL) for path in sorted((_TOOL / "payload_tool").glob("*")) if path.is_file()]
  pages = [_TOOL.joinpath(name).relative_to(_TOOL) for name in ("pyproject.toml", "README.md")]
  for wheel in (build(ROOT / "xla_call_module", folder), _tool_wheel(folder, [*pages, *files])):
    with zipfile.ZipFile(wheel) as archive:
      archive.extractall(folder / "site")
  return folder / "site"


def _tool_wheel(folder, files):
  staged = folder / "payload_tool"
  for file in files:
    (staged / file).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(_TOOL / file, staged / file)
  command = [sys.executable, "-m", "flit_core.wheel", "--outdir", str(folder), str(staged)]
  subprocess.run(command, check=True, capture_output=True)
  return folder / "payload_tool-0.1.0-py3-none-any.whl"


def _run(*command, site, **variables):
  environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")}
  # `-S` and the folder of libraries leave out what the environment installs in place, which is all of graftax.
  environment |= {"PYTHONPATH": os.pathsep.join([str(site), sysconfig.get_path("purelib")]), **variables}
  return subprocess.run(command, env=environment, cwd=site, capture_output=True, text=True, timeout=400)


def test_the_tool_runs_with_one_wheel_of_graftax(site):
  absent = "import importlib.util; assert importlib.util.find_spec('graftax.convert') is None"
  assert _run(sys.executable, "-S", "-c", absent, site=site).returncode == 0
  done = _run(sys.executable, "-S", _TOOL / "payload_tool_test.py", site=site)
  assert done.returncode == 0, done.stderr
  assert "OK" in done.stderr


@pytest.mark.slow
def test_strict_mypy_passes(site):
  command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", site.parent / "cache"]
  done = _run(*command, "-p", "payload_tool", site=site, MYPYPATH=str(site))
  assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_strict_pyright_passes(site):
  pyright = shutil.which("pyright")
  if pyright is None:
    pytest.skip("pyright is not installed; it is a package of npm")
  libraries = [str(site), sysconfig.get_path("purelib")]
  settings = {"include": ["payload_tool"], "typeCheckingMode": "strict", "extraPaths": libraries}
  (site / "pyrightconfig.json").write_text(json.dumps(settings))
  done = _run(pyright, "-p", site, site=site)
  assert done.returncode == 0, done.stdout
  wrong = site / "payload_tool" / "wrong.py"
  wrong.write_text("from graftax.xla_call_module import Module, lift\nlift(Module.from_text(''), gradient='all')\n")
  try:
    assert "reportArgumentType" in _run(pyright, "-p", site, site=site).stdout
  finally:
    wrong.unlink()
