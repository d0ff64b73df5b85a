"""Written by graftax."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def conv2d(x, kernel, strides=(1, 1), padding="SAME"):
    """Convolves images."""
    return lax.conv_general_dilated(
        x, kernel, strides, padding, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def shifted(x, window, strides, padding, store=False):
    """Yields what each cell of a window sees in images, for all its positions."""
    x = jnp.pad(x, ((0, 0), *padding, (0, 0)))
    if store:
        x = lax.optimization_barrier(x)
    batch, height, width, channels = x.shape
    rows = (height - window[0]) // strides[0] * strides[0] + 1
    columns = (width - window[1]) // strides[1] * strides[1] + 1
    for i, j in np.ndindex(*window):
        yield lax.slice(
            x, (0, i, j, 0), (batch, i + rows, j + columns, channels), (1, *strides, 1)
        )


def depthwise_conv(x, kernel, strides, padding):
    """Convolves each channel. On CPUs, a sum of shifted inputs is faster."""

    def added():
        filters = kernel.reshape(*kernel.shape[:2], -1)
        inputs = shifted(x, kernel.shape[:2], strides, padding, store=True)
        terms = (
            pixels * filters[cell]
            for pixels, cell in zip(inputs, np.ndindex(*kernel.shape[:2]), strict=True)
        )
        return sum(terms, next(terms))

    def grouped():
        return lax.conv_general_dilated(
            x,
            kernel.reshape(*kernel.shape[:2], 1, -1),
            strides,
            padding,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=x.shape[-1],
        )

    return lax.platform_dependent(cpu=added, default=grouped)


def batch_norm(p, x):
    y = lax.rsqrt(p["moving_variance"] + 0.001) * p["gamma"]
    return x * y + (p["beta"] - p["moving_mean"] * y)


def expand(p, x):
    x = conv2d(x, p["kernel"])
    x = batch_norm(p["BN"], x)
    return jax.nn.relu6(x)


def project(p, x):
    x = conv2d(x, p["kernel"])
    return batch_norm(p["BN"], x)


def block_2(p, x):
    x = expand(p["expand"], x)
    x = jnp.pad(x, ((0, 0), (0, 1), (0, 1), (0, 0)))
    x = depthwise_conv(x, p["depthwise"]["kernel"], (2, 2), ((0, 0), (0, 0)))
    x = batch_norm(p["depthwise_BN"], x)
    return project(p["project"], jax.nn.relu6(x))


def block(p, x):
    y = expand(p["expand"], x)
    y = depthwise_conv(y, p["depthwise"]["kernel"], (1, 1), ((1, 1), (1, 1)))
    y = batch_norm(p["depthwise_BN"], y)
    y = project(p["project"], jax.nn.relu6(y))
    return x + y


def block_3(p, x):
    x = expand(p["expand"], x)
    x = depthwise_conv(x, p["depthwise"]["kernel"], (1, 1), ((1, 1), (1, 1)))
    x = batch_norm(p["depthwise_BN"], x)
    return project(p["project"], jax.nn.relu6(x))


def model(params, images):
    x = conv2d(images, params["Conv1"]["kernel"], strides=(2, 2))
    x = batch_norm(params["bn_Conv1"], x)
    x = depthwise_conv(
        jax.nn.relu6(x),
        params["expanded_conv_depthwise"]["kernel"],
        (1, 1),
        ((1, 1), (1, 1)),
    )
    x = batch_norm(params["expanded_conv_depthwise_BN"], x)
    x = project(params["expanded_conv_project"], jax.nn.relu6(x))
    x = block_2(params["block_1"], x)
    x = block(params["block_2"], x)
    x = block_2(params["block_3"], x)
    for block_params in params["blocks"]:
        x = block(block_params, x)
    x = block_2(params["block_6"], x)
    for block_params in params["blocks_2"]:
        x = block(block_params, x)
    x = block_3(params["block_10"], x)
    for block_params in params["blocks_3"]:
        x = block(block_params, x)
    x = block_2(params["block_13"], x)
    for block_params in params["blocks_4"]:
        x = block(block_params, x)
    x = block_3(params["block_16"], x)
    x = project(params["Conv_1"], x)
    x = jnp.mean(jax.nn.relu6(x), axis=(1, 2))
    return {
        "output_0": jax.nn.softmax(
            x @ params["predictions"]["kernel"] + params["predictions"]["bias"], axis=-1
        )
    }
