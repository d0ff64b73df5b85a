"""Recovers calls of JAX's functions from their parts.

- `matching`: finds the program of a call in a block.
- `table`: the calls that are looked for.
- `helpers`: functions that JAX does not have, which become functions of the text.
- `identities`: joins functions with identities that have their derivatives.
- `rule_checks`: compares derivatives by running them.
- `rewriting`: puts calls in the place of their parts.
"""

from collections.abc import Sequence

__all__: Sequence[str] = []
