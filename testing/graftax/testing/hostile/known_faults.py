"""Templates that still show a fault, with what it is. The lanes of the tests leave them out; the command runs them."""

__all__ = ["KNOWN_FAULTS"]

# Template -> fault. A template leaves the table with the commit that mends it.
KNOWN_FAULTS: dict[str, str] = {
  "stablehlo_text/other_dialects": "ops of MLIR's dialects in a module without a body that XLA takes are its own error",
  "stablehlo_text/random_bits": "a slice whose indices do not have the rank of the operand is XLA's own error",
}
