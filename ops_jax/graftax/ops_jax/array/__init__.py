"""Arrays made, reshaped, sliced, joined, gathered, scattered, sorted and cast."""

# The modules that register lowerings. The other modules hold what these share.
LOWERINGS = (
  "broadcasting",
  "cast",
  "concat_split",
  "creation",
  "diagonal",
  "gather",
  "identity",
  "padding",
  "partition",
  "reversing",
  "scatter",
  "selection",
  "shape_ops",
  "slicing",
  "sort_search",
  "unique",
)
