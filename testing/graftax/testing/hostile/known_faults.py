"""Templates that still show a fault, with what it is. The lanes of the tests leave them out; the command runs them."""

__all__ = ["KNOWN_FAULTS"]

# Template -> fault. A template leaves the table with the commit that mends it.
KNOWN_FAULTS: dict[str, str] = {}
