"""Imports every module of the packages, and writes and reads a model, without what only POSIX systems have.

    PYTHONPATH=... python tools/checks/without_posix.py FOLDER MODULE...

Libraries are imported first as they are here. Then names and modules that Windows does not have are taken away, and the
packages are imported again, so that it is their own code that must do without.
"""

import importlib
import mmap
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

# What Python documents as not available on Windows. The standard library itself needs SIGKILL here.
MODULES = ("fcntl", "grp", "posix", "pwd", "resource", "syslog", "termios", "tty", "pty", "_posixsubprocess")
NAMES = {
  os: """
    O_CLOEXEC
    O_DIRECTORY O_NOCTTY O_NOFOLLOW O_NONBLOCK O_SYNC O_TMPFILE chown chroot fchmod fchown fork forkpty getegid
    geteuid getgid getgroups getloadavg getpgid getpgrp getpriority getsid getuid initgroups killpg lchown lockf major
    makedev minor mkfifo mknod nice openpty pathconf pipe2 posix_fadvise posix_fallocate posix_spawn pread preadv pwrite
    register_at_fork sched_getaffinity sched_yield setegid seteuid setgid setgroups setpgid setpriority setsid
    setuid statvfs sync sysconf tcgetpgrp ttyname uname wait3 wait4 writev
  """,
  signal: "SIGALRM SIGBUS SIGCHLD SIGHUP SIGPIPE SIGQUIT SIGSTOP SIGUSR1 SIGUSR2 SIGXCPU alarm pause setitimer",
  mmap: "MADV_DONTNEED MADV_NORMAL MADV_RANDOM MADV_SEQUENTIAL MADV_WILLNEED MAP_PRIVATE MAP_SHARED PROT_READ",
}


def _take_away() -> None:
  for name in MODULES:
    sys.modules[name] = None  # type: ignore[assignment]  # makes importing it fail
  for module, names in NAMES.items():
    for name in names.split():
      if hasattr(module, name):
        delattr(module, name)
  # Python 3.13 uses these names where the standard library found them on import, as it does not on Windows.
  shutil._use_fd_functions = False  # type: ignore[attr-defined]
  subprocess._USE_POSIX_SPAWN = False  # type: ignore[attr-defined]
  os.altsep = "/"  # type: ignore[assignment]


def _import_again(modules: list[str]) -> None:
  for name in [name for name in sys.modules if name == "graftax" or name.startswith("graftax.")]:
    del sys.modules[name]
  for name in modules:
    importlib.import_module(name)


def _write_and_read(folder: Path) -> None:
  import jax
  import numpy as np

  from graftax import savedmodel_io

  function = (lambda params, x: x * params["w"], jax.ShapeDtypeStruct((2,), np.float32))
  savedmodel_io.save(folder / "model", function, {"w": np.full(2, 3, np.float32)})
  savedmodel_io.save(folder / "model", function, {"w": np.full(2, 4, np.float32)}, overwrite=True)
  model = savedmodel_io.load(folder / "model")
  serve, params = model.convert("serving_default")
  outputs, _ = serve(params, x=np.ones(2, np.float32))
  np.testing.assert_array_equal(next(iter(outputs.values())), 4)
  model.save(folder / "copy", params)
  savedmodel_io.write_checkpoint(folder / "ckpt", {"a": np.ones(3)})
  np.testing.assert_array_equal(savedmodel_io.read_checkpoint(folder / "ckpt")["a"], 1)
  assert sorted(p.name for p in folder.iterdir()) == ["ckpt.data-00000-of-00001", "ckpt.index", "copy", "model"]


def main() -> None:
  folder, *modules = sys.argv[1:]
  for name in modules:
    importlib.import_module(name)
  _take_away()
  _import_again(modules)
  _write_and_read(Path(folder))
  print(len(modules))


if __name__ == "__main__":
  main()
