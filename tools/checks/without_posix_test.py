import os
import subprocess
import sys

from cleanroom import PACKAGES, ROOT

# Run only by developers of graftax, on Linux: processes are watched by its means.
_LINUX_ONLY = ("graftax.testing.hostile", "graftax.testing.jax_libraries", "graftax.tools.artifacts")


def _modules() -> list[str]:
  found = []
  for package in PACKAGES:
    for path in sorted((ROOT / package / "graftax").rglob("*.py")):
      name = ".".join(path.relative_to(ROOT / package).with_suffix("").parts).removesuffix(".__init__")
      is_test = path.name.endswith("_test.py") or path.name == "conftest.py" or "testdata" in path.parts
      imports_tensorflow = "import tensorflow" in path.read_text(encoding="utf-8").replace("    import tensorflow", "")
      if not (is_test or imports_tensorflow or path.name == "__main__.py" or name.startswith(_LINUX_ONLY)):
        found.append(name)
  return found


def test_every_module_is_imported_and_a_model_written_and_read_without_posix(tmp_path):
  modules = _modules()
  assert len(modules) > 500
  command = [sys.executable, ROOT / "tools/checks/without_posix.py", tmp_path, *modules]
  paths = os.pathsep.join(str(ROOT / package) for package in PACKAGES)
  environment = os.environ | {"PYTHONPATH": paths, "JAX_PLATFORMS": "cpu"}
  run = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
  assert run.stdout.strip() == str(len(modules)), run.stderr[-3000:]
