"""What is written may be published: it holds no path of the machine and does not depend on the folder of the source."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from graftax.tools.commands.export_model import export_model

_SOURCE = """
import sys
import jax, jax.numpy as jnp, numpy as np
from graftax.savedmodel_io import save

def layer(x):
  return jnp.tanh(x)

def predict(params, x):
  steps = jax.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, layer(c[1])), (0, x @ params["w"]))
  return jax.lax.cumsum(steps[1]) + jnp.linalg.solve(jnp.eye(3), jnp.ones(3))

x = jax.ShapeDtypeStruct((2, 3), np.float32)
save(sys.argv[1], {"predict": (predict, x)}, {"w": np.ones((3, 3), np.float32)}, lowering=sys.argv[2])
"""
# Beginnings of paths of files: absolute ones of this machine, and names of Python files.
_PATHS = re.compile(rb"/(?:tmp|root|home|usr|work|opt|var|private|Users)/[\w./-]*|[\w/.-]*\.py\b")


def _written(folder: Path) -> dict[str, bytes]:
  files = (path for path in sorted(folder.rglob("*")) if path.is_file())
  return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def _paths(files: dict[str, bytes]) -> dict[str, list[bytes]]:
  found = {
    name: _PATHS.findall(data) + [p for p in (os.getcwd().encode(),) if p in data] for name, data in files.items()
  }
  return {name: paths for name, paths in found.items() if paths}


@pytest.mark.parametrize("lowering", ["stablehlo", "tf_ops"])
def test_a_saved_model_does_not_depend_on_the_folder_of_its_source(tmp_path, lowering):
  written = []
  for name in ("here", "a_longer_name_elsewhere/below"):
    folder = tmp_path / name
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(_SOURCE.replace("\n", "\n" * (1 + ("below" in name)), 1))
    command = [sys.executable, "model.py", "m", lowering]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, env={**os.environ, "PYTHONHASHSEED": "0"})
    written.append(_written(folder / "m"))
  assert _paths(written[0]) == {}
  assert b"jit(predict)" in written[0]["saved_model.pb"] or lowering == "tf_ops"  # errors can still name operations
  # The fingerprint has a random identifier.
  first, second = ({k: v for k, v in files.items() if k != "fingerprint.pb"} for files in written)
  assert first.keys() == second.keys()
  assert [name for name in first if first[name] != second[name]] == []


def test_a_converted_model_holds_no_paths(tmp_path):
  data = Path(__file__).parents[4] / "savedmodel_io/graftax/savedmodel_io/testdata/2026_11_21/keras_export"
  if not data.exists():
    pytest.skip("the model is in the source tree of another package")
  model = shutil.copytree(data, tmp_path / "model")
  for gradient in (False, True):
    out = tmp_path / f"out_{gradient}"
    export_model(
      str(model),
      out,
      signature=None,
      tags=None,
      batch="2",
      shapes=(),
      platforms=["cpu"],
      gradient=gradient,
      force=False,
    )
    assert _paths({k: v for k, v in _written(out).items() if k != "load.py"}) == {}
