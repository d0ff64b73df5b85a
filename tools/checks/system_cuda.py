"""Finds CUDA libraries that a process takes from the system instead of from the installed wheels.

    python system_cuda.py jax jax_cuda13_plugin

imports the modules, loads every library of the environment's nvidia wheels, and fails if a CUDA library outside of the
environment is on LD_LIBRARY_PATH or was loaded. Only the driver (libcuda, libnvidia-*) may come from the system.

Needs nothing but the standard library, since it runs in environments without this repository.
"""

import argparse
import ctypes
import importlib
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

_TOOLKIT = re.compile(
  r"lib(?:cudart|cublas|cublasLt|cudnn\w*|cufft\w*|cufile|curand|cusolver\w*|cusparse|cupti|nccl|nvblas|nvJitLink|nvrtc"
  r"|nvrtc-builtins|nvshmem\w*|nvToolsExt|nvvm)\.so[.\d]*"
)
# Libraries of the driver; if the machine has no driver, the environment is complete without them.
_DRIVER = re.compile(r"lib(?:cuda|nvidia-[\w-]+)\.so[.\d]*")


def on_library_path(library_path: str) -> list[Path]:
  """Returns the CUDA libraries in the folders of LD_LIBRARY_PATH, which the loader prefers to those of the wheels."""
  folders = [Path(folder) for folder in library_path.split(":") if folder]
  return sorted(p for f in folders if f.is_dir() for p in f.iterdir() if _TOOLKIT.fullmatch(p.name))


def loaded_from_elsewhere(maps: str, environment: Path) -> list[Path]:
  """Returns the CUDA libraries in the text of `/proc/<pid>/maps` that are not below `environment`."""
  files = {Path(line.split(maxsplit=5)[5]) for line in maps.splitlines() if len(line.split(maxsplit=5)) == 6}
  return sorted(f for f in files if _TOOLKIT.fullmatch(f.name) and not f.is_relative_to(environment))


def load_libraries(libraries: Iterable[Path]) -> tuple[int, list[str]]:
  """Loads shared libraries; returns how many were loaded, and the errors.

  A library that only lacks the driver counts as neither.
  """
  loaded, errors = 0, []
  for library in libraries:
    try:
      ctypes.CDLL(str(library))
      loaded += 1
    except OSError as e:
      if not _DRIVER.match(str(e)):
        errors.append(f"{library.name}: {e}")
  return loaded, errors


def main() -> None:
  parser = argparse.ArgumentParser(description="Fail if CUDA libraries come from the system.")
  parser.add_argument("modules", nargs="*", help="modules to import first")
  modules = parser.parse_args().modules
  environment = Path(sys.prefix).resolve()
  for module in modules:
    importlib.import_module(module)
  # Other libraries there are plug-ins of NVSHMEM for networks and MPI, which are loaded only where these are installed.
  files = sorted(environment.glob("lib/python3*/site-packages/nvidia/**/lib*.so*"))
  loaded, problems = load_libraries(file for file in files if _TOOLKIT.fullmatch(file.name))
  found = on_library_path(os.environ.get("LD_LIBRARY_PATH", ""))
  found += loaded_from_elsewhere(Path("/proc/self/maps").read_text(), environment)
  problems += [f"{path}: a CUDA library of the system; expected only those in {environment}" for path in found]
  if problems:
    sys.exit("\n".join(problems))
  print(f"imported {', '.join(modules)}; {loaded} nvidia libraries loaded, all from the environment")


if __name__ == "__main__":
  main()
