"""Names for what models take and return, of which no type says more; a type checker takes each for `Any`."""

from typing import Any, TypeAlias

__all__ = ["Json", "Leaf", "PyTree"]

PyTree: TypeAlias = Any
"""Nested containers and their leaves, as `jax.tree` takes them: arguments, results, parameters or specs of these."""

Leaf: TypeAlias = Any
"""What a pytree holds: an array of any library, a tracer, a spec or a number."""

Json: TypeAlias = Any
"""What a file of JSON holds."""
