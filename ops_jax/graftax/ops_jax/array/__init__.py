"""Arrays made, reshaped, sliced, joined, gathered, scattered, sorted and cast."""

# The modules that register lowerings. The other modules hold what these share.
LOWERINGS = (
  "broadcasting",
  "cast",
  "concat_split",
  "creation",
  "diagonal",
  "dynamic_partition",
  "gather",
  "identity",
  "padding",
  "reverse_roll",
  "scatter",
  "select_where",
  "shape_ops",
  "slicing",
  "sort_search",
  "unique",
)
