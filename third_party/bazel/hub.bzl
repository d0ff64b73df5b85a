"""Repository rule for `@pypi`, which selects each distribution from the lock of the platform's accelerator."""

def _distribution_names(repository_ctx, lock):
    lines = repository_ctx.read(repository_ctx.path(lock)).split("\n")
    return [line.split("==")[0].strip() for line in lines if "==" in line]

def _pypi_hub_impl(repository_ctx):
    choices = {}
    for variant, lock in zip(repository_ctx.attr.variants, repository_ctx.attr.locks):
        for name in _distribution_names(repository_ctx, lock):
            choices.setdefault(name, []).append(variant)
    for name, variants in choices.items():
        branches = "".join([
            '        "%s": ["@pypi_%s//:%s"],\n' % (repository_ctx.attr.accelerators[variant], variant, name)
            for variant in variants
        ])
        repository_ctx.file(name + "/BUILD", """\
load("@rules_python//python:defs.bzl", "py_library")

alias(
    name = "{name}",
    actual = ":choice",
    visibility = ["//visibility:public"],
)

py_library(
    name = "choice",
    deps = select({{
{branches}    }}, no_match_error = "{name} is locked only for {variants}"),
)
""".format(name = name, branches = branches, variants = ", ".join(variants)), executable = False)
    repository_ctx.file("BUILD", "", executable = False)

_pypi_hub = repository_rule(
    implementation = _pypi_hub_impl,
    doc = "Selects among the installed locks without installing any of them.",
    attrs = {
        "accelerators": attr.string_dict(mandatory = True),
        "locks": attr.label_list(mandatory = True, allow_files = True),
        "variants": attr.string_list(mandatory = True),
    },
)

def pypi_hub(name, variants, locks):
    """Declares the hub repository.

    Args:
      name: name of the repository.
      variants: names of the locks, each also a platform setting in //third_party/bazel/platforms.
      locks: the lock of each variant, in the same order.
    """

    # Labels include the repository because the generated BUILD files are in another one. Bazel versions print labels
    # differently.
    settings = {v: str(Label("//third_party/bazel/platforms:is_" + v)) for v in variants}
    _pypi_hub(
        name = name,
        accelerators = {v: _in_full(label) for v, label in settings.items()},
        locks = locks,
        variants = variants,
    )

def _in_full(label):
    return "@graftax_repo" + label if label.startswith("//") else label
