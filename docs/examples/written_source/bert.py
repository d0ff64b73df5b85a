"""Written by graftax."""

import jax
import jax.numpy as jnp
from jax import lax


def dot_product_attention(query, key, mask, value):
    x = jnp.einsum("abcd,aecd->acbe", query, key)
    x = jnp.where(mask, x * 0.125, -2.372671e38)
    x = jnp.einsum("abcd,aceb->acde", value, jax.nn.softmax(x, axis=-1))
    return x.transpose(0, 3, 1, 2)


def layer_norm(p, x):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    y = x - lax.stop_gradient(mean)
    y = jnp.mean(y * y, axis=-1, keepdims=True)
    y = lax.rsqrt(y + 1e-12) * p["gamma"]
    z = -mean * y + p["beta"]
    return x * y + z


def attention(p, x, mask):
    value = jnp.tensordot(x, p["value"]["kernel"], axes=1) + p["value"]["bias"]
    query = jnp.tensordot(x, p["query"]["kernel"], axes=1) + p["query"]["bias"]
    key = jnp.tensordot(x, p["key"]["kernel"], axes=1) + p["key"]["bias"]
    y = dot_product_attention(query, key, mask[:, None, None], value)
    y = (
        jnp.tensordot(y, p["attention_output"]["kernel"], axes=2)
        + p["attention_output"]["bias"]
    )
    return layer_norm(p["norm"], x + y)


def layer(p, x, mask):
    x = attention(p["attention"], x, mask)
    y = jax.nn.gelu(x @ p["inner"]["kernel"] + p["inner"]["bias"], approximate=False)
    x = x + (y @ p["outer"]["kernel"] + p["outer"]["bias"])
    return layer_norm(p["norm"], x)


def model(params, ids, mask, types):
    x = jnp.take(params["word_embeddings"]["embeddings"], ids, axis=0) + jnp.take(
        params["type_embeddings"]["embeddings"], types, axis=0
    )
    x = layer_norm(
        params["embedding_norm"], x + params["position_embeddings"]["embeddings"]
    )
    for layer_params in params["layers"]:
        x = layer(layer_params, x, mask)
    y = lax.index_in_dim(x, 0, axis=1, keepdims=False)
    return {
        "pooled": jnp.tanh(y @ params["pooler"]["kernel"] + params["pooler"]["bias"]),
        "sequence": x,
    }
