"""Repository rule that installs a lock and declares one py_library per distribution."""

load("//third_party/bazel:interpreter.bzl", "compile_reproducibly", "run")

_HEADER = """\
load("@rules_python//python:defs.bzl", "py_library")

package(default_visibility = ["//visibility:public"])

exports_files(["index.json"])
"""

# Links to source directories keep thousands of files in one runfiles entry. Bazel does not look inside them, so lock.pin
# makes tests run again if the lock changes.
_LIBRARY = """
py_library(
    name = "{name}.root",
    data = glob(["roots/{name}/*", "roots/{name}/*/*"], exclude_directories = 0) + ["lock.pin"],
    imports = ["roots/{name}"],
)

py_library(
    name = "{name}",
    deps = [{deps}],
)
"""

_LIBRARY_WITHOUT_FILES = """
py_library(name = "{name}")
"""

def _make_venv(repository_ctx, lock):
    """Returns the path of a virtual environment for the lock: an existing one for the same lock, or a new one."""
    digest = repository_ctx.execute(["sha256sum", lock]).stdout.split(" ")[0]
    existing = repository_ctx.os.environ.get("GRAFTAX_LOCKED_VENV")
    if existing and repository_ctx.path(existing + "/.locked-" + digest).exists:
        return existing
    venv = str(repository_ctx.path("venv"))
    run(repository_ctx, [repository_ctx.read(repository_ctx.attr._python), "-m", "venv", venv], "making a venv")
    repository_ctx.report_progress("installing " + str(lock))
    pip = [venv + "/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    pip += ["--no-deps", "--only-binary", ":all:", "--require-hashes", "-r", str(lock)]
    run(repository_ctx, pip, "installing %s" % lock)
    compile_reproducibly(repository_ctx, venv + "/bin/python", venv + "/lib")

    # The hashes of installed commands, whose first lines name the venv, would differ between folders. With them, caches
    # of other machines would never have a result.
    records = ["find", venv + "/lib", "-path", "*.dist-info/RECORD", "-exec", "sed", "-i", "/^\\.\\.\\//d", "{}", "+"]
    run(repository_ctx, records, "removing installed commands from the records")
    return venv

def locked_names(lock_text):
    """Returns the names of the distributions in a lock.

    Args:
      lock_text: content of the lock.
    """
    return [line.split("==")[0].strip() for line in lock_text.split("\n") if "==" in line]

def _declare_names(repository_ctx, lock):
    """Declares empty targets, so that a build for an accelerator can be analysed without installing gigabytes."""
    build = _HEADER + "".join([_LIBRARY_WITHOUT_FILES.format(name = name) for name in locked_names(repository_ctx.read(lock))])
    repository_ctx.file("BUILD", build, executable = False)

def _pypi_closure_impl(repository_ctx):
    lock = repository_ctx.path(repository_ctx.attr.lock)
    if repository_ctx.os.environ.get("GRAFTAX_LOCKS_BY_NAME") == "1":
        _declare_names(repository_ctx, lock)
        return
    venv = _make_venv(repository_ctx, lock)
    split = [venv + "/bin/python", repository_ctx.path(repository_ctx.attr._splitter), venv, "roots"]
    split += ["--requirements", repository_ctx.path(repository_ctx.attr.requirements)]
    run(repository_ctx, split, "splitting the installed packages")
    index = json.decode(repository_ctx.read("roots/index.json"))
    build = _HEADER
    for name, closure in sorted(index.items()):
        deps = ", ".join(['":%s.root"' % required for required in closure])
        build += _LIBRARY.format(name = name, deps = deps)
    repository_ctx.file("lock.pin", repository_ctx.read(lock), executable = False)
    repository_ctx.file("BUILD", build, executable = False)

pypi_closure = repository_rule(
    implementation = _pypi_closure_impl,
    doc = "Installs one lock and declares each distribution as a target with exactly its own requirements.",
    attrs = {
        "lock": attr.label(mandatory = True, allow_single_file = True),
        "requirements": attr.label(mandatory = True, allow_single_file = True),
        "_python": attr.label(default = "@local_python//:path", allow_single_file = True),
        "_splitter": attr.label(default = "//third_party:import_roots.py", allow_single_file = True),
    },
    environ = ["GRAFTAX_LOCKED_VENV", "GRAFTAX_LOCKS_BY_NAME"],
)
