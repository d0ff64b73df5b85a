"""Images: resizing, cropping, colors, geometric transforms and bounding boxes."""

# The modules that register lowerings. The other modules hold what these share.
LOWERINGS = (
  "bounding_boxes",
  "color",
  "crop_and_resize",
  "non_max_suppression",
  "patches",
  "projective_transform",
  "resize",
  "scale_and_translate",
)
