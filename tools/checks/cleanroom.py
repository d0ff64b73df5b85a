"""Installs each wheel alone, with the dependencies that it declares and nothing else, and runs its smoke test.

    python tools/checks/cleanroom.py            # every package, in a venv of its own, by pip
    python tools/checks/cleanroom.py ops_jax    # one

pip chooses the versions that the lock names. `cleanroom_test.py` does the same without pip, on import roots split from
`.venv`, in seconds: what a package does not declare is not on its sys.path there either.
"""

import argparse
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
  "xla_call_module",
  "graphdef_ir",
  "ops_jax",
  "convert",
  "savedmodel_io",
  "hub_io",
  "testing",
  "tools",
)
_RUNNER = ROOT / "tools/checks/smoke_runner.py"
# Importing a package, and using it on files, never needs TensorFlow; graphs are read without JAX too.
_ABSENT = {"graphdef_ir": ("tensorflow", "jax", "jaxlib")}


def smoke_command(python: Path, package: str, paths: Iterable[Path] = ()) -> list[str]:
  """Returns the command line of the smoke test of one package under an interpreter, without TensorFlow."""
  command = [str(python), "-I", *(["-S"] if paths else []), str(_RUNNER), package, str(ROOT / package / "smoke.py")]
  for library in _ABSENT.get(package, ("tensorflow",)):
    command += ["--absent", library]
  for path in paths:
    command += ["--path", str(path)]
  return command


def write_constraints(folder: Path) -> Path:
  """Writes the versions of the lock for this Python to `folder` and returns the path.

  Hashes are left out, because pip would then refuse the wheels that are built here.
  """
  lock = "floor" if sys.version_info[:2] == (3, 11) else "main"
  lines = (ROOT / f"third_party/locks/{lock}.txt").read_text().splitlines()
  path = folder / "constraints.txt"
  path.write_text("\n".join(line.split(" --hash")[0] for line in lines if "==" in line))
  return path


def check_with_pip(package: str, wheels: Path, folder: Path) -> None:
  """Makes a virtual environment, installs the wheel of one package there and runs its smoke test.

  Raises:
    subprocess.CalledProcessError: pip or the smoke test failed; the reason is in its output.
  """
  environment = folder / package
  venv.create(environment, with_pip=True)
  python = environment / "bin/python"
  pip = [str(python), "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
  pip += [
    "--find-links",
    str(wheels),
    "--constraint",
    str(write_constraints(folder)),
    f"graftax-{package.replace('_', '-')}",
  ]
  subprocess.run(pip, check=True)
  subprocess.run(smoke_command(python, package), check=True, cwd=folder)


def main() -> None:
  parser = argparse.ArgumentParser(description="Install each wheel alone and run its smoke test.")
  parser.add_argument("packages", nargs="*", default=PACKAGES, help="package folders (default: all)")
  packages = parser.parse_args().packages
  with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    builder = [sys.executable, str(ROOT / "tools/packaging/build_wheel.py"), "--out", str(folder / "wheels")]
    subprocess.run([*builder, *(str(ROOT / p) for p in PACKAGES)], check=True)
    for package in packages:
      check_with_pip(package, folder / "wheels", folder)


if __name__ == "__main__":
  main()
