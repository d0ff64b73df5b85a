"""The rules that write a TensorFlow op for JAX primitives: the table outward_ops.txt, renewed by `make op-index`."""

import functools
from collections.abc import Mapping
from importlib import resources

__all__ = ["outward_rules"]


def outward_rules(op: str) -> tuple[str, ...]:
  """Returns the modules of `graftax.convert.jax2tf.tf_ops.rules` that write an op."""
  return _table().get(op, ())


@functools.cache
def _table() -> Mapping[str, tuple[str, ...]]:
  text = resources.files("graftax.tools.facts").joinpath("outward_ops.txt").read_text(encoding="utf-8")
  rows = (line.split() for line in text.splitlines() if not line.startswith("#"))
  return {op: tuple(modules) for op, *modules in rows}
