"""Variables and lookup tables."""

# The modules that register lowerings. The other modules hold what these share.
LOWERINGS = (
  "lookup_tables",
  "ref_variables",
  "variable_updates",
  "variables",
)
