"""Written by graftax."""

import jax
import jax.numpy as jnp
from jax import lax


def batch_norm(p, x):
    y = lax.rsqrt(p["moving_variance"] + 1.001e-05) * p["gamma"]
    return x * y + (p["beta"] - p["moving_mean"] * y)


def conv(p, x, strides=(1, 1), padding="SAME"):
    x = lax.conv_general_dilated(
        x, p["kernel"], strides, padding, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return x + p["bias"]


def conv_bn_relu(p, x, strides=(1, 1)):
    x = conv(p["conv"], x, strides=strides)
    x = batch_norm(p["bn"], x)
    return jax.nn.relu(x)


def block(p, x):
    y = x
    for conv_bn_relu_params in p["conv_bn_relus"]:
        y = conv_bn_relu(conv_bn_relu_params, y)
    y = conv(p["3_conv"], y)
    y = batch_norm(p["3_bn"], y)
    return jax.nn.relu(x + y)


def block_3(p, x):
    y = conv(p["0_conv"], x)
    y = batch_norm(p["0_bn"], y)
    for conv_bn_relu_params in p["conv_bn_relus"]:
        x = conv_bn_relu(conv_bn_relu_params, x)
    x = conv(p["3_conv"], x)
    x = batch_norm(p["3_bn"], x)
    return jax.nn.relu(y + x)


def block_2(p, x):
    y = conv(p["0_conv"], x, strides=(2, 2))
    y = batch_norm(p["0_bn"], y)
    x = conv_bn_relu(p["1"], x, strides=(2, 2))
    x = conv_bn_relu(p["2"], x)
    x = conv(p["3_conv"], x)
    x = batch_norm(p["3_bn"], x)
    return jax.nn.relu(y + x)


def conv_blocks(p, x):
    x = block_2(p["block1"], x)
    for block_params in p["blocks"]:
        x = block(block_params, x)
    return x


def model(params, images):
    x = conv(
        params["conv1_conv"],
        jnp.pad(images, ((0, 0), (3, 3), (3, 3), (0, 0))),
        strides=(2, 2),
        padding="VALID",
    )
    x = batch_norm(params["conv1_bn"], x)
    x = jnp.pad(jax.nn.relu(x), ((0, 0), (1, 1), (1, 1), (0, 0)))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "VALID")
    x = block_3(params["conv2_block1"], x)
    for block_params in params["blocks"]:
        x = block(block_params, x)
    for conv_blocks_params in params["conv_blocks"]:
        x = conv_blocks(conv_blocks_params, x)
    x = (
        jnp.mean(x, axis=(1, 2)) @ params["predictions"]["kernel"]
        + params["predictions"]["bias"]
    )
    return {"output_0": jax.nn.softmax(x, axis=-1)}
