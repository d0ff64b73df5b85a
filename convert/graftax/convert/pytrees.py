"""Names for what users pass in and get back, of which no type says more.

A type checker takes each for `Any`.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

__all__ = ["KeyPath", "Leaf", "PyTree"]

PyTree: TypeAlias = Any
"""Nested containers and their leaves, as `jax.tree` takes them: arguments, results, parameters, or specs of these."""

Leaf: TypeAlias = Any
"""What a pytree holds: an array, a tracer, a spec, a number, or what a transform of JAX puts in the place of one."""

KeyPath: TypeAlias = Sequence[Any]
"""The keys of `jax.tree_util` from the root of a pytree to a leaf, whose classes are those of the containers."""
