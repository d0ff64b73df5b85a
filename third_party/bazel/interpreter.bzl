"""Repository rules for the Python toolchain: an archive with a checked hash, or the host's interpreter."""

# The default shebang names `python`, which Debian does not install. It runs only Bazel's start script, which then starts
# the interpreter of the toolchain.
_SHEBANG = "#!/usr/bin/env python3"

_BUILD = """\
load("@rules_python//python:py_runtime.bzl", "py_runtime")
load("@rules_python//python:py_runtime_pair.bzl", "py_runtime_pair")

package(default_visibility = ["//visibility:public"])

exports_files(["path"])

py_runtime(
    name = "runtime",
    {interpreter}
    python_version = "PY3",
    stub_shebang = "{shebang}",
)

py_runtime_pair(
    name = "pair",
    py3_runtime = ":runtime",
)

toolchain(
    name = "toolchain",
    toolchain = ":pair",
    toolchain_type = "@bazel_tools//tools/python:toolchain_type",
)
"""

_ARCHIVE = "GRAFTAX_PYTHON_ARCHIVE"
_SHA256 = "GRAFTAX_PYTHON_SHA256"

# The Pythons that the locks are for (lock.py), the best one first.
_VERSIONS = ["3.13", "3.12"]

# `lib` is a link to one directory, like those of the packages (closure.bzl).
_ARCHIVE_BUILD = """\
package(default_visibility = ["//visibility:public"])

exports_files(["bin/python"])

filegroup(
    name = "files",
    srcs = glob(["lib/*"], exclude_directories = 0),
)
"""

def _find_python(repository_ctx):
    """Returns the path of the host's interpreter: PYTHON_BIN_PATH, or else the one that find_python.sh finds."""
    python = repository_ctx.os.environ.get("PYTHON_BIN_PATH")
    if python:
        return python
    found = repository_ctx.execute([repository_ctx.path(repository_ctx.attr._finder)] + _VERSIONS)
    if found.return_code:
        fail("%s\nFor Bazel, set PYTHON_BIN_PATH or %s" % (found.stderr, _ARCHIVE))
    return found.stdout.strip()

def _check_version(repository_ctx, python):
    version = repository_ctx.execute([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"])
    if version.return_code or version.stdout.strip() not in _VERSIONS:
        seen = version.stdout.strip() or version.stderr.strip()
        what = (python, seen, " and ".join(_VERSIONS), _ARCHIVE)
        fail("%s is Python %s; the locks are for %s (set PYTHON_BIN_PATH or %s)" % what)

def run(repository_ctx, arguments, what):
    """Runs a command in a repository rule; if it fails, fails with its output.

    Args:
      repository_ctx: context of the repository rule.
      arguments: the command.
      what: description of the step for the error message.
    """
    result = repository_ctx.execute(arguments, timeout = 1800, quiet = True)
    if result.return_code:
        fail("%s failed (exit status %d):\n%s%s" % (what, result.return_code, result.stdout, result.stderr))

def compile_reproducibly(repository_ctx, python, folder):
    """Writes bytecode that does not depend on the folder or the time, and that Python does not replace.

    Args:
      repository_ctx: context of the repository rule.
      python: the interpreter.
      folder: the folder with the modules.
    """
    options = ["-q", "-f", "-j", "2", "--invalidation-mode", "unchecked-hash", "-s", str(folder)]

    # Some packages include files that do not compile, such as templates, so the exit status says nothing.
    repository_ctx.execute([python, "-m", "compileall"] + options + [folder], timeout = 1800, quiet = True)

def _python_archive_impl(repository_ctx):
    source = repository_ctx.os.environ.get(_ARCHIVE)
    sha256 = repository_ctx.os.environ.get(_SHA256)
    if not source or not sha256:
        fail("%s is the URL or path of an archive with Python, and %s its hash; set both" % (_ARCHIVE, _SHA256))
    repository_ctx.download_and_extract(
        url = "file://" + source if source.startswith("/") else source,
        sha256 = sha256,
        stripPrefix = "python",
    )
    versions = [v for v in _VERSIONS if repository_ctx.path("bin/python" + v).exists]
    if not versions:
        fail("%s has none of %s" % (source, ["python/bin/python" + v for v in _VERSIONS]))
    python = repository_ctx.path("bin/python" + versions[0])
    if not repository_ctx.path("bin/python").exists:
        repository_ctx.symlink(python, "bin/python")
    compile_reproducibly(repository_ctx, python, repository_ctx.path("lib"))
    repository_ctx.file("BUILD", _ARCHIVE_BUILD, executable = False)

python_archive = repository_rule(
    implementation = _python_archive_impl,
    doc = "A relocatable interpreter from an archive with a checked hash.",
    environ = [_ARCHIVE, _SHA256],
)

def _local_python_impl(repository_ctx):
    if repository_ctx.os.environ.get(_ARCHIVE):
        python = repository_ctx.path(Label("@python_archive//:bin/python"))
        interpreter = "interpreter = \"@python_archive//:bin/python\",\n    files = [\"@python_archive//:files\"],"
        _check_version(repository_ctx, python)
    else:
        python = _find_python(repository_ctx)
        _check_version(repository_ctx, python)
        run(repository_ctx, [python, "-m", "venv", "--without-pip", "venv"], "making the interpreter's venv")
        interpreter = "interpreter_path = \"%s\"," % repository_ctx.path("venv/bin/python")
    repository_ctx.file("BUILD", _BUILD.format(interpreter = interpreter, shebang = _SHEBANG), executable = False)

    # For the rules that install packages.
    repository_ctx.file("path", str(python), executable = False)

local_python = repository_rule(
    implementation = _local_python_impl,
    doc = "A Python toolchain without packages, so that targets must declare all that they import.",
    attrs = {"_finder": attr.label(default = "//third_party:find_python.sh", allow_single_file = True)},
    environ = ["HOME", "PATH", "PYENV_ROOT", "PYTHON_BIN_PATH", _ARCHIVE],
    local = True,
)
