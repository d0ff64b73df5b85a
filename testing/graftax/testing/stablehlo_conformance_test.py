import os
import pathlib
import subprocess

import jax
import numpy as np
import pytest

from graftax.testing import stablehlo_conformance
from graftax.xla_call_module import VersionError
from graftax.xla_call_module.mlir import current_version

# Where a checkout of https://github.com/openxla/stablehlo has its modules: stablehlo/testdata.
_FOLDER = os.environ.get("GRAFTAX_STABLEHLO_TESTDATA", "")


def _write(
  folder: pathlib.Path, name: str, expected: str, check: str = "check.expect_eq", kind: str = "f32"
) -> pathlib.Path:
  path = folder / f"{name}.mlir"
  path.write_text(f"""module {{ func.func public @main() -> tensor<2x{kind}> {{
    %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2x{kind}>
    %1 = stablehlo.add %0, %0 : tensor<2x{kind}>
    %2 = stablehlo.constant dense<{expected}> : tensor<2x{kind}>
    stablehlo.custom_call @{check}(%1, %2) {{has_side_effect = true}} : (tensor<2x{kind}>, tensor<2x{kind}>) -> ()
    return %1 : tensor<2x{kind}> }} }}""")
  return path


@pytest.mark.parametrize(
  "expected, check, status",
  [
    ("[2.0, 4.0]", "check.expect_eq", "right"),
    ("[2.0, 4.0001]", "check.expect_eq", "wrong"),
    ("[2.0, 4.0001]", "check.expect_close", "right"),
    ("[2.0, 4.1]", "check.expect_almost_eq", "wrong"),
    ("[2.0, 0x7FC00000]", "check.expect_close", "wrong"),
  ],
)
def test_checks_decide(tmp_path, expected, check, status):
  assert stablehlo_conformance.run_file(_write(tmp_path, "m", expected, check)).status == status


_WAYS = [("text", ""), ("bytes", "newest"), ("bytes", "oldest")]


@pytest.mark.parametrize("way", ["lift", "embed"])
@pytest.mark.parametrize("via, version", _WAYS)
def test_a_wrong_module_is_wrong_however_it_is_read_and_run(tmp_path, via, version, way):
  paths = [_write(tmp_path, "right", "[2.0, 4.0]"), _write(tmp_path, "wrong", "[2.0, 5.0]")]
  found = [stablehlo_conformance.run_file(path, via, version, way).status for path in paths]
  assert found == ["right", "wrong"]


def test_each_module_may_have_a_process_of_its_own(tmp_path, capsys):
  _write(tmp_path, "b", "[2.0, 5.0]")
  assert stablehlo_conformance.main([str(tmp_path), "--processes", "2", "--way", "embed"]) == 1
  out = capsys.readouterr().out
  assert "0 right, 1 wrong, 0 error" in out and "wrong: b.mlir: 1 of 2 elements differ" in out


@pytest.mark.parametrize(
  "returncode, stdout, status",
  [
    (0, "1 right, 0 wrong, 0 error, 0 unwritable\n3 s\n", "right"),
    (1, "error: m.mlir: 1 right answer is missing\n0 right, 0 wrong, 1 error, 0 unwritable\n", "error"),
    (-11, "1 right, 0 wrong, 0 error, 0 unwritable\n", "error"),
  ],
)
def test_a_module_that_ends_its_process_is_not_right(monkeypatch, returncode, stdout, status):
  ended = subprocess.CompletedProcess([], returncode, stdout, "")
  monkeypatch.setattr(subprocess, "run", lambda *args, **options: ended)
  assert stablehlo_conformance._run_alone(pathlib.Path("m.mlir"), []).status == status


def test_module_is_written_in_the_oldest_version_that_can_express_it(tmp_path):
  path = _write(tmp_path, "m", "[2.0, 4.0]", kind="f8E3M4")  # the type came with 1.7.0
  assert stablehlo_conformance.run_file(path, "bytes", "oldest").status == "right"
  assert stablehlo_conformance.run_file(path, "bytes", "1.0.0").status == "unwritable"
  newest = ".".join(map(str, current_version()))
  for version, want in (("oldest", "1.7.0"), ("newest", newest)):
    assert f"StableHLO_v{want}\0".encode() in stablehlo_conformance.read(path.read_text(), "bytes", version).data
  with pytest.raises(VersionError, match="cannot be written as StableHLO 1.0.0"):
    stablehlo_conformance.read(path.read_text(), "bytes", "1.0.0")


@pytest.mark.slow
@pytest.mark.skipif(not _FOLDER, reason="GRAFTAX_STABLEHLO_TESTDATA does not name a folder of specification modules")
@pytest.mark.parametrize("via, version", _WAYS)
def test_every_specification_module_is_right(via, version):
  with jax.enable_x64(True):
    outcomes = list(stablehlo_conformance.run_folder(pathlib.Path(_FOLDER), via=via, version=version))
  problems = [f"{o.path.name}: {o.detail}" for o in outcomes if o.status in ("wrong", "error")]
  assert not problems
  assert sum(outcome.status == "right" for outcome in outcomes) > 0.9 * len(outcomes) > 0


def test_module_that_does_not_parse_or_checks_nothing_is_an_error(tmp_path):
  bad = tmp_path / "bad.mlir"
  bad.write_text("module { nonsense }")
  assert stablehlo_conformance.run_file(bad).status == "error"
  bad.write_text("module { func.func public @main() { return } }")
  assert "checks nothing" in stablehlo_conformance.run_file(bad).detail


def test_script_counts_and_fails_where_a_module_is_wrong(tmp_path, capsys):
  before = jax.config.jax_enable_x64
  try:
    _write(tmp_path, "a", "[2.0, 4.0]")
    assert stablehlo_conformance.main([str(tmp_path)]) == 0
    _write(tmp_path, "b", "[2.0, 5.0]")
    assert stablehlo_conformance.main([str(tmp_path)]) == 1
  finally:
    jax.config.update("jax_enable_x64", before)
  out = capsys.readouterr().out
  assert "1 right, 1 wrong, 0 error" in out and "wrong: b.mlir" in out


def test_nan_equals_nan():
  nan = np.array([np.nan, 1], np.float32)
  assert stablehlo_conformance.compare("check.expect_eq", nan, nan) == ""
