"""Stubs of rule repositories as thin wrappers of the native rules, so that Bazel downloads nothing.

Otherwise Bazel 4 fetches rules_cc, rules_java and the coverage tools even for a tree without C++ or Java.
"""

def _wrappers(names, tag):
    """Returns Starlark text that defines each rule as the native rule with the given tag."""
    if not tag:
        return "".join(["%s = native.%s\n" % (name, name) for name in names])
    return "".join([
        "def {name}(tags = [], **kwargs):\n    native.{name}(tags = tags + [\"{tag}\"], **kwargs)\n\n".format(
            name = name,
            tag = tag,
        )
        for name in names
    ])

def _rule_stub_impl(repository_ctx):
    for path, names in repository_ctx.attr.rules.items():
        folder, _, _ = path.rpartition("/")
        repository_ctx.file(folder + "/BUILD", "", executable = False)
        repository_ctx.file(path, _wrappers(names, repository_ctx.attr.tag), executable = False)
    for path, source in repository_ctx.attr.passed_on.items():
        label, name = source.split(" ")
        text = "load(\"{label}\", _{name} = \"{name}\")\n\n{name} = _{name}\n".format(label = label, name = name)
        repository_ctx.file(path, text, executable = False)
    repository_ctx.file("BUILD", repository_ctx.attr.build, executable = False)
    repository_ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % repository_ctx.name, executable = False)

_rule_stub = repository_rule(
    implementation = _rule_stub_impl,
    attrs = {
        "build": attr.string(),
        "passed_on": attr.string_dict(doc = "maps a file to `label name`, for symbols that are not native rules"),
        "rules": attr.string_list_dict(doc = "maps a file to the names of native rules"),
        "tag": attr.string(),
    },
)

# Bazel 4 requires these tags if a native rule is not called from the real rule repository.
_CC_TAG = "__CC_RULES_MIGRATION_DO_NOT_USE_WILL_BREAK__"
_JAVA_TAG = "__JAVA_RULES_MIGRATION_DO_NOT_USE_WILL_BREAK__"

_COVERAGE = """\
package(default_visibility = ["//visibility:public"])

filegroup(name = "coverage_report_generator")
"""

def rule_stubs():
    """Declares the stub repositories."""
    _rule_stub(
        name = "rules_cc",
        rules = {"cc/defs.bzl": ["cc_library", "cc_binary", "cc_test", "cc_import", "cc_toolchain", "cc_toolchain_suite"]},
        tag = _CC_TAG,
    )
    _rule_stub(
        name = "rules_java",
        rules = {"java/defs.bzl": ["java_library", "java_binary", "java_import", "java_runtime", "java_toolchain"]},
        tag = _JAVA_TAG,
    )
    _rule_stub(
        name = "rules_python",
        rules = {
            "python/defs.bzl": ["py_library", "py_binary", "py_test"],
            "python/py_runtime.bzl": ["py_runtime"],
        },
        passed_on = {"python/py_runtime_pair.bzl": "@bazel_tools//tools/python:toolchain.bzl py_runtime_pair"},
    )
    _rule_stub(
        name = "rules_proto",
        rules = {"proto/defs.bzl": ["proto_library"]},
    )
    _rule_stub(
        name = "remote_coverage_tools",
        build = _COVERAGE,
    )
