"""Module extension for the repositories, in its own file because Bazel 4 does not define `module_extension`."""

load("//third_party/bazel:repositories.bzl", "graftax_repositories")

def _graftax_impl(module_ctx):
    hubs = [tag for module in module_ctx.modules if module.is_root for tag in module.tags.hub]
    if len(hubs) > 1:
        fail("graftax.hub is there %d times; the packages come from one hub" % len(hubs))
    locks = {
        tag.accelerator: (tag.packages, tag.requirements)
        for module in module_ctx.modules
        if module.is_root
        for tag in module.tags.lock
    }
    if hubs and locks:
        fail("graftax.hub and graftax.lock both say where the packages come from; use one of them")

    # A label of the root module is printed with the canonical name of its repository, which means the same everywhere.
    repository = str(hubs[0].repository).partition("//")[0] if hubs else None
    graftax_repositories(locks, hub = (repository, hubs[0].target) if hubs else None)

graftax = module_extension(
    implementation = _graftax_impl,
    tag_classes = {
        "hub": tag_class(
            attrs = {
                "repository": attr.label(
                    mandatory = True,
                    doc = "any label in the repository of the packages, such as `@pip//:BUILD.bazel`; it is not built",
                ),
                "target": attr.string(
                    default = "//{name}",
                    doc = "where a distribution is in it; `{name}` is its name with `_`, `{distribution}` with `-`",
                ),
            },
            doc = "The packages of the root module, such as those of `pip.parse` of rules_python, for @pypi.",
        ),
        "lock": tag_class(
            attrs = {
                "accelerator": attr.string(mandatory = True, values = ["cpu", "cuda12", "cuda13", "tpu"]),
                "packages": attr.label(mandatory = True),
                "requirements": attr.label(mandatory = True),
            },
            doc = "A lock of the root module, which replaces those of graftax; see `graftax_repositories`.",
        ),
    },
)
