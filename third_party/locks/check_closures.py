"""Installs a lock into a temporary virtual environment and proves that it is complete. `make closures` calls it.

    python third_party/locks/check_closures.py cuda12 cuda13 tpu
    python third_party/locks/check_closures.py cuda13 --device cuda --wheels dist    # on a machine with the device

pip checks hashes and requirements. JAX and the accelerator's plugin are imported, and all CUDA libraries of the wheels
are loaded, which needs no GPU. With `--device` the wheels of graftax are installed too, and their smoke tests and the
tests in graftax/testing/devices run there.
Environments have several GB, so one exists at a time.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_CHECKS = _HERE.parents[1] / "tools/checks"
_PLUGINS = {
  "cpu": (),
  "cuda12": ("jax_plugins.xla_cuda12", "jax_cuda12_plugin"),
  "cuda13": ("jax_plugins.xla_cuda13", "jax_cuda13_plugin"),
  "tpu": ("libtpu",),
}
_DEVICES = "import jax; print('devices:', [f'{d.platform}: {d.device_kind}' for d in jax.devices()])"


def _run(*command: object, **variables: str) -> None:
  environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | variables
  subprocess.run([str(part) for part in command], check=True, env=environment)


def _size_bytes(folder: Path) -> int:
  return sum(path.lstat().st_size for path in folder.rglob("*"))


def install(variant: str, environment: Path) -> Path:
  """Installs a lock and returns the interpreter of its environment."""
  venv.create(environment)
  python = environment / "bin/python"
  pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
  options = ["--quiet", "--no-deps", "--no-compile", "--no-cache-dir", "--only-binary", ":all:", "--require-hashes"]
  _run(*pip, "install", *options, "-r", _HERE / f"{variant}.txt")
  _run(*pip, "check")
  return python


def run_smoke_tests(python: Path, wheels: Path, device: str) -> None:
  """Installs the wheels and runs the smoke test of each package with JAX on a device."""
  built = [str(path) for path in sorted(wheels.glob("graftax_*.whl"))]
  _run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", *built)
  _run(python, "-c", _DEVICES, JAX_PLATFORMS=device)
  for wheel in built:
    package = Path(wheel).name.partition("-")[0].removeprefix("graftax_")
    smoke = _HERE.parents[1] / package / "smoke.py"
    _run(python, "-I", _CHECKS / "smoke_runner.py", package, smoke, "--absent", "tensorflow", JAX_PLATFORMS=device)


def run_device_tests(python: Path, device: str, folder: Path) -> None:
  """Runs the tests of accelerators on a device, from the installed wheels; they say which device it was."""
  root = _HERE.parents[1]
  for name in ("devices", "testdata"):
    shutil.copytree(
      root / "testing/graftax/testing" / name, folder / name, ignore=shutil.ignore_patterns("__pycache__")
    )
  for name in ("conftest.py", "pyproject.toml"):
    shutil.copy(root / name, folder)
  options = ["--ring=free", "-m", "accelerator", "-p", "no:cacheprovider", "-o", "pythonpath=", f"--rootdir={folder}"]
  _run(python, "-m", "pytest", *options, folder / "devices", JAX_PLATFORMS=device)


def check(variant: str, device: str | None, wheels: Path | None) -> None:
  """Installs one lock, checks it, and prints its size and the time that it took."""
  start = time.perf_counter()
  with tempfile.TemporaryDirectory() as folder:
    python = install(variant, Path(folder, "venv"))
    installed_s = time.perf_counter() - start
    # Without the device, importing the plugin must work and computing must fall back to the CPU.
    _run(python, "-I", _CHECKS / "system_cuda.py", "jax", *_PLUGINS[variant], JAX_PLATFORMS=device or "cpu")
    if device and wheels:
      run_smoke_tests(python, wheels, device)
      run_device_tests(python, device, Path(folder, "tests"))
    print(f"{variant}: {_size_bytes(Path(folder)) / 1e9:.2f} GB, installed in {installed_s:.0f} s", flush=True)


def main() -> None:
  parser = argparse.ArgumentParser(description="Install locks into temporary environments and check them.")
  parser.add_argument("variants", nargs="+", choices=sorted(_PLUGINS))
  parser.add_argument("--device", help="JAX platform to run smoke tests on: cuda, tpu or cpu")
  parser.add_argument("--wheels", type=Path, help="folder with the wheels of graftax for the smoke tests")
  arguments = parser.parse_args()
  if (arguments.device is None) != (arguments.wheels is None):
    parser.error("--device and --wheels need each other")
  for variant in arguments.variants:
    check(variant, arguments.device, arguments.wheels)


if __name__ == "__main__":
  main()
