"""Declares the external repositories for both WORKSPACE and MODULE.bazel."""

load("//third_party/bazel:closure.bzl", "pypi_closure")
load("//third_party/bazel:hub.bzl", "pypi_hub")
load("//third_party/bazel:interpreter.bzl", "local_python")

VARIANTS = ["cpu", "cuda12", "cuda13", "tpu"]

def graftax_repositories():
    """Declares the interpreter, one repository per lock, and the hub that selects among them.

    A lock is installed only if a requested target depends on it.
    """
    local_python(name = "local_python")
    for variant in VARIANTS:
        pypi_closure(
            name = "pypi_" + variant,
            lock = "//third_party/locks:%s.txt" % variant,
            requirements = "//third_party/locks:%s.in" % variant,
        )
    pypi_hub(
        name = "pypi",
        locks = ["//third_party/locks:%s.txt" % variant for variant in VARIANTS],
        variants = VARIANTS,
    )
