"""Written by graftax."""

import jax
import jax.numpy as jnp
from jax import lax


def lstm_cell(p, x, hidden, cell):
    x = x @ p["kernel"] + hidden @ p["recurrent_kernel"]
    input_gate, forget_gate, candidate, output_gate = jnp.split(
        x + p["bias"], 4, axis=-1
    )
    x = jax.nn.sigmoid(forget_gate) * cell
    y = jax.nn.sigmoid(input_gate) * jnp.tanh(candidate)
    cell = x + y
    hidden = jax.nn.sigmoid(output_gate) * jnp.tanh(cell)
    return cell, hidden


def model(params, ids):
    batch = ids.shape[0]
    x = jnp.swapaxes(jnp.take(params["embedding"]["embeddings"], ids, axis=0), 0, 1)

    def step(carry, y):
        hidden, cell = carry
        cell, hidden = lstm_cell(params["lstm"]["lstm_cell"], y, hidden, cell)
        return (hidden, cell), None

    (hidden, _), _ = lax.scan(
        step,
        (jnp.zeros((batch, 128), jnp.float32), jnp.zeros((batch, 128), jnp.float32)),
        x,
    )
    return {
        "output_0": jax.nn.softmax(
            hidden @ params["dense"]["kernel"] + params["dense"]["bias"], axis=-1
        )
    }
