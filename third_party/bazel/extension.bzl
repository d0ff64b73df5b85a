"""Module extension for the repositories, in its own file because Bazel 4 does not define `module_extension`."""

load("//third_party/bazel:repositories.bzl", "graftax_repositories")

graftax = module_extension(implementation = lambda module_ctx: graftax_repositories())
