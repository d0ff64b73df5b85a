"""Variables and lookup tables."""

# The modules that register lowerings. The other modules hold what these share.
LOWERINGS = (
  "lookup_tables",
  "references",
  "variable_updates",
  "variables",
)
