"""Opens HDF5 files in a helper process first, because the HDF5 library can crash or not end on damaged files."""

import math
import os
import signal
import subprocess
import sys
from pathlib import Path

from graftax.savedmodel_io.errors import DamagedWeightsError, WeightsError

__all__ = ["check_in_helper"]

# Of processor time, where the system can limit it.
_TIMEOUT_S = 10.0
_BYTES_PER_S = 1 << 25
# On a busy machine, an honest file may take so many times longer.
_WAITS = 12


def check_in_helper(path: str) -> None:
  """Reads the structure of an HDF5 file, or of the one in a `.keras` archive, in another process.

  What that process reads without an error may still be hostile.

  Raises:
    DamagedWeightsError: the library crashes, reports damage, or does not finish.
    WeightsError: the process cannot start to read.
  """
  # -I keeps the working directory, which may be that of the file, off the search path.
  script = str(Path(__file__).with_name("h5_probe.py"))
  limit_s = math.ceil(_TIMEOUT_S + os.path.getsize(path) / _BYTES_PER_S)
  paths = [entry for entry in sys.path if os.path.isabs(entry)]
  command = [sys.executable or "python", "-I", script, path, str(limit_s), *paths]
  endless = DamagedWeightsError(f"{path}: damaged: the HDF5 library does not finish reading it in {limit_s} s")
  try:
    done = subprocess.run(command, capture_output=True, timeout=_WAITS * limit_s, check=False)
  except subprocess.TimeoutExpired:
    raise endless from None
  if hasattr(signal, "SIGXCPU") and done.returncode == -signal.SIGXCPU:
    raise endless
  if done.returncode:
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    if not done.stdout.startswith(b"ready"):
      reason = lines[-1] if lines else f"exit status {done.returncode}"
      raise WeightsError(f"{path}: the helper process that reads HDF5 files does not start: {reason}")
    problem = lines[-1] if done.returncode > 0 and lines else "the HDF5 library crashes"
    raise DamagedWeightsError(f"{path}: damaged, or not an HDF5 file: {problem}")
