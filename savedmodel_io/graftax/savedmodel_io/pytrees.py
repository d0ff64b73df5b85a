"""Names for what users pass in and what models have stored, of which no type says more.

A type checker takes each for `Any`.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

__all__ = ["Json", "KeyPath", "Leaf", "PyTree"]

PyTree: TypeAlias = Any
"""Nested containers and their leaves, as `jax.tree` takes them or as a model has stored them."""

Leaf: TypeAlias = Any
"""What a pytree holds: an array of any library, a spec, a number, or a default that is none of these."""

KeyPath: TypeAlias = Sequence[Any]
"""The keys of `jax.tree_util` from the root of a pytree to a leaf, whose classes are those of the containers."""

Json: TypeAlias = Any
"""What a file of JSON holds, before anything of it is checked."""
