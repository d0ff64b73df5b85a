"""Repository rule for `@pypi`, which selects each distribution from the lock of the platform's accelerator."""

load("//third_party/bazel:closure.bzl", "locked_names")

def _pypi_hub_impl(repository_ctx):
    choices = {}
    for variant, lock in zip(repository_ctx.attr.variants, repository_ctx.attr.locks):
        for name in locked_names(repository_ctx.read(repository_ctx.path(lock))):
            choices.setdefault(name, []).append(variant)
    for name, variants in choices.items():
        branches = "".join([
            '        "%s": ["@pypi_%s//:%s"],\n' % (repository_ctx.attr.accelerators[variant], variant, name)
            for variant in variants
        ])
        settings = "".join(['        "%s": [],\n' % repository_ctx.attr.accelerators[variant] for variant in variants])

        # Targets that need a distribution which is not locked for an accelerator are skipped there. Explicitly asked for,
        # they are an error that names it.
        repository_ctx.file(name + "/BUILD", """\
load("@rules_python//python:defs.bzl", "py_library")

alias(
    name = "{name}",
    actual = ":choice",
    visibility = ["//visibility:public"],
)

py_library(
    name = "choice",
    target_compatible_with = select({{
{settings}        "//conditions:default": ["{not_locked}"],
    }}),
    deps = select({{
{branches}        "//conditions:default": [],
    }}),
)
""".format(
            name = name,
            branches = branches,
            not_locked = repository_ctx.attr.not_locked,
            settings = settings,
        ), executable = False)
    repository_ctx.file("BUILD", "", executable = False)

_pypi_hub = repository_rule(
    implementation = _pypi_hub_impl,
    doc = "Selects among the installed locks without installing any of them.",
    attrs = {
        "accelerators": attr.string_dict(mandatory = True),
        "locks": attr.label_list(mandatory = True, allow_files = True),
        "not_locked": attr.string(mandatory = True, doc = "constraint value of no platform"),
        "variants": attr.string_list(mandatory = True),
    },
)

def _pypi_aliases_impl(repository_ctx):
    names = {}
    for lock in repository_ctx.attr.locks:
        names.update({name: None for name in locked_names(repository_ctx.read(repository_ctx.path(lock)))})
    for name in names:
        normalized = name.lower().replace("-", "_").replace(".", "_")
        target = repository_ctx.attr.target.format(name = normalized, distribution = name)
        repository_ctx.file(name + "/BUILD", """\
alias(
    name = "{name}",
    actual = "{repository}{target}",
    visibility = ["//visibility:public"],
)
""".format(name = name, repository = repository_ctx.attr.repository, target = target), executable = False)
    repository_ctx.file("BUILD", "", executable = False)

pypi_aliases = repository_rule(
    implementation = _pypi_aliases_impl,
    doc = "Names the packages of another repository as ours; one that it does not have is an error only if it is used.",
    attrs = {
        "locks": attr.label_list(mandatory = True, allow_files = True, doc = "the distributions to name"),
        "repository": attr.string(mandatory = True, doc = "with `@`"),
        "target": attr.string(mandatory = True),
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
        not_locked = _in_full(str(Label("//third_party/bazel/platforms:not_locked"))),
        variants = variants,
    )

def _in_full(label):
    return "@graftax_repo" + label if label.startswith("//") else label
