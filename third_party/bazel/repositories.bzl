"""Declares the external repositories for both WORKSPACE and MODULE.bazel."""

load("//third_party/bazel:closure.bzl", "pypi_closure")
load("//third_party/bazel:hub.bzl", "pypi_aliases", "pypi_hub")
load("//third_party/bazel:interpreter.bzl", "local_python", "python_archive")

VARIANTS = ["cpu", "cuda12", "cuda13", "tpu"]

def _own_locks():
    return {
        # Labels, so that they mean these files in other workspaces too.
        variant: (Label("//third_party/locks:%s.txt" % lock), Label("//third_party/locks:%s.in" % lock))
        for variant, lock in [(v, "main" if v == "cpu" else v) for v in VARIANTS]
    }

def graftax_repositories(locks = None, hub = None):
    """Declares the interpreter, one repository per lock, and the hub that selects among them.

    A lock is installed only if a requested target depends on it.

    Args:
      locks: maps accelerators (`cpu`, `cuda12`, `cuda13`, `tpu`) to pairs of labels: a list of packages with hashes, and
        the requirements it was resolved from. By default the locks of this repository. A workspace that embeds graftax
        gives its own, so that it decides on the version of JAX.
      hub: instead of locks, the packages of another repository, such as one of rules_python: its name with `@`, and where
        a distribution is in it, such as `//{name}`.
    """
    locks = locks or _own_locks()
    local_python(name = "local_python")
    python_archive(name = "python_archive")
    if hub:
        pypi_aliases(
            name = "pypi",
            locks = [lock for lock, _ in _own_locks().values()],
            repository = hub[0],
            target = hub[1],
        )
        return
    for variant, (lock, requirements) in locks.items():
        pypi_closure(
            name = "pypi_" + variant,
            lock = lock,
            requirements = requirements,
        )
    pypi_hub(
        name = "pypi",
        locks = [lock for lock, _ in locks.values()],
        variants = locks.keys(),
    )
