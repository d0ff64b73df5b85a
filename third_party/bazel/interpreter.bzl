"""Repository rule for the Python toolchain: the host's interpreter in an empty virtual environment."""

_BUILD = """\
load("@rules_python//python:py_runtime.bzl", "py_runtime")
load("@rules_python//python:py_runtime_pair.bzl", "py_runtime_pair")

package(default_visibility = ["//visibility:public"])

py_runtime(
    name = "runtime",
    interpreter_path = "{interpreter}",
    python_version = "PY3",
    # The default shebang names `python`, which Debian does not install.
    stub_shebang = "#!/usr/bin/env python3",
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

def find_python(repository_ctx):
    """Returns the path of the host's Python 3.11: PYTHON_BIN_PATH, else python3.11, else python3.

    Args:
      repository_ctx: context of the repository rule.

    Returns:
      The path of an interpreter whose version was checked to be 3.11.
    """
    python = repository_ctx.os.environ.get("PYTHON_BIN_PATH")
    for name in ["python3.11", "python3"]:
        python = python or repository_ctx.which(name)
    if not python:
        fail("no Python found on PATH; install python3.11 or set PYTHON_BIN_PATH")
    version = repository_ctx.execute([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"])
    if version.return_code or version.stdout.strip() != "3.11":
        fail("%s is Python %s; the locks are for 3.11 (set PYTHON_BIN_PATH)" % (python, version.stdout.strip()))
    return python

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

def _local_python_impl(repository_ctx):
    python = find_python(repository_ctx)
    run(repository_ctx, [python, "-m", "venv", "--without-pip", "venv"], "making the interpreter's venv")
    interpreter = str(repository_ctx.path("venv/bin/python"))
    repository_ctx.file("BUILD", _BUILD.format(interpreter = interpreter), executable = False)

local_python = repository_rule(
    implementation = _local_python_impl,
    doc = "A Python toolchain without packages, so that targets must declare all that they import.",
    environ = ["PATH", "PYTHON_BIN_PATH"],
    local = True,
)
