"""The repositories as a module extension, in a file of its own because Bazel 4 has no `module_extension`."""

load("//third_party/bazel:repositories.bzl", "graftax_repositories")

graftax = module_extension(implementation = lambda module_ctx: graftax_repositories())
