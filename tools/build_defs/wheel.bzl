"""Rule that builds a wheel from declared sources with the package's own PEP 517 backend."""

def _python_wheel_impl(ctx):
    name = "%s-%s-py3-none-any.whl" % (ctx.attr.distribution.replace("-", "_"), ctx.attr.version)
    wheel = ctx.actions.declare_file("dist/" + name)
    inputs = ctx.files.srcs + [ctx.file.pyproject, ctx.file.readme]
    manifest = ctx.actions.declare_file(ctx.label.name + ".files")
    ctx.actions.write(manifest, "\n".join([f.path for f in inputs]))

    arguments = ctx.actions.args()
    arguments.add(ctx.label.package)
    arguments.add("--out", wheel.dirname)
    arguments.add("--license", ctx.file._license)
    arguments.add("--files", manifest)

    # The builder fails if the backend names the wheel differently from pyproject.toml. Bazel fails if that name is not
    # the one declared here.
    ctx.actions.run(
        executable = ctx.executable._builder,
        arguments = [arguments],
        inputs = inputs + [manifest, ctx.file._license],
        outputs = [wheel],
        mnemonic = "PythonWheel",
        progress_message = "Building " + name,
    )
    return [DefaultInfo(files = depset([wheel]))]

python_wheel = rule(
    implementation = _python_wheel_impl,
    doc = "Builds a wheel that is identical, byte for byte, to that of `make wheels`.",
    attrs = {
        "distribution": attr.string(mandatory = True, doc = "as in pyproject.toml"),
        "pyproject": attr.label(mandatory = True, allow_single_file = True),
        "readme": attr.label(mandatory = True, allow_single_file = True),
        "srcs": attr.label_list(mandatory = True, allow_files = True),
        "version": attr.string(mandatory = True, doc = "as in pyproject.toml"),
        "_builder": attr.label(default = "//tools/packaging:build_wheel", executable = True, cfg = "exec"),
        "_license": attr.label(default = "//:LICENSE", allow_single_file = True),
    },
)
