"""Module extension for the repositories, in its own file because Bazel 4 does not define `module_extension`."""

load("//third_party/bazel:repositories.bzl", "graftax_repositories")

def _graftax_impl(module_ctx):
    locks = {
        tag.accelerator: (tag.packages, tag.requirements)
        for module in module_ctx.modules
        if module.is_root
        for tag in module.tags.lock
    }
    graftax_repositories(locks)

graftax = module_extension(
    implementation = _graftax_impl,
    tag_classes = {
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
