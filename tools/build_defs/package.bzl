"""Macro for the targets of one package folder: its rooms, its library, its tests and its wheel."""

load("@rules_python//python:defs.bzl", "py_library", "py_test")
load("//tools/build_defs:version.bzl", "VERSION")
load("//tools/build_defs:wheel.bzl", "python_wheel")

_NOT_SHIPPED = [
    "**/*_test.py",
    "**/conftest.py",
    "**/testdata/**",
    "**/__pycache__/**",
]

# Required by conftest.py and the settings of pytest.
_TEST_RUNNER = [
    "@pypi//hypothesis",
    "@pypi//pytest",
]

# Dependencies of the tests against TensorFlow only.
_TENSORFLOW = [
    "@pypi//flax",
    "@pypi//keras",
    "@pypi//optax",
    "@pypi//pillow",
    "@pypi//scikit-learn",
    "@pypi//tensorflow-cpu",
    "@pypi//tf2jax",
]

def _pytest_target(name, package, ring, srcs, data, deps):
    py_test(
        name = name,
        timeout = "eternal" if ring == "tensorflow" else "long",
        srcs = srcs + ["//tools/build_defs:run_pytest.py"],
        args = ["--ring=" + ring, package + "/graftax"],
        data = data + ["//:pytest_settings"],
        # CI runs this ring once, under `make test`, to finish within 40 minutes on two cores. Run it under Bazel with
        # `make bazel-test-tensorflow`.
        tags = ["manual"] if ring == "tensorflow" else [],
        main = "//tools/build_defs:run_pytest.py",
        # A dependency of a package's tests may also be one of all tests of a ring.
        deps = depset(deps + _TEST_RUNNER).to_list(),
    )

def _room(package, name, deps):
    path = "graftax/{}/{}".format(package, name)
    py_library(
        name = name,
        srcs = native.glob([path + ".py", path + "/**/*.py"], allow_empty = True, exclude = _NOT_SHIPPED),
        # A module beside the subpackages may read any file beside it.
        data = native.glob(
            [path + "/**"] if native.glob([path + "/__init__.py"], allow_empty = True) else ["graftax/{}/*".format(package)],
            allow_empty = True,
            exclude = _NOT_SHIPPED + ["**/*.py", "**/*.pyc"],
        ),
        imports = ["."],
        deps = deps,
    )

def graftax_package(name, deps, rooms, test_deps = [], test_data = [], not_shipped = []):
    """Declares the rooms, the library, the wheel and the test targets of a package.

    A room is a subpackage, or a module beside the subpackages. Its target has the room's name and holds its sources
    without the `__init__.py` of the package, which imports the rooms. Only this package uses it.

    The library and the wheel are public, also for other workspaces. Which package may depend on which is declared in
    pyproject.toml, and a test compares `deps` with it.

    Args:
      name: name of the folder and of the library.
      deps: dependencies of the library; the same as in pyproject.toml.
      rooms: what each room imports, `ROOMS` of the `rooms.bzl` that `make bazel-rooms` writes.
      test_deps: additional dependencies of the tests in both rings.
      test_data: additional files that the tests read, such as the `testdata` of another package.
      not_shipped: files and folders below `graftax/<name>` that the library has and the wheel does not; the same as in
        pyproject.toml.
    """
    in_rooms = [
        "graftax/{}/{}{}".format(name, room, end)
        for room in rooms
        for end in [".py", "/**"]
    ]
    sources = native.glob(["graftax/**/*.py"], exclude = _NOT_SHIPPED + in_rooms)
    files = native.glob(["graftax/**"], exclude = _NOT_SHIPPED + ["**/*.py", "**/*.pyc"])
    for room, imported in rooms.items():
        _room(name, room, imported)
    py_library(
        name = name,
        srcs = sources,
        data = files,
        imports = ["."],
        visibility = ["//visibility:public"],
        deps = deps + [":" + room for room in rooms],
    )
    python_wheel(
        name = "wheel",
        srcs = native.glob(
            ["graftax/**"],
            exclude = _NOT_SHIPPED + ["**/*.pyc"] +
                      ["graftax/{}/{}".format(name, path) for path in not_shipped] +
                      ["graftax/{}/{}/**".format(name, path) for path in not_shipped],
        ),
        distribution = "graftax-" + name.replace("_", "-"),
        pyproject = "pyproject.toml",
        readme = "README.md",
        version = VERSION,
        visibility = ["//visibility:public"],
    )
    tests = native.glob(["graftax/**/*_test.py", "graftax/**/conftest.py"])
    own_data = native.glob(["graftax/**/testdata/**"])
    native.filegroup(
        name = "testdata",
        srcs = own_data,
        visibility = ["//:__subpackages__"],
    )
    test_data = own_data + test_data
    _pytest_target("tests", name, "free", tests, test_data, [":" + name] + test_deps)
    oracle = ["//testing"] if name != "testing" and "//testing" not in deps + test_deps else []
    _pytest_target("tests_tensorflow", name, "tensorflow", tests, test_data, [":" + name] + test_deps + oracle + _TENSORFLOW)
