"""Calls, conditionals, loops, and the ops that only matter to the order in which a graph runs."""

# The modules that register lowerings. The other modules hold what these share.
LOWERINGS = (
  "calls",
  "conditionals",
  "grappler_ops",
  "loops",
  "printing",
)
