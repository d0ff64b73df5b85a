"""Images: resizing, cropping, colors, geometric transforms and bounding boxes.

- `bounding_boxes`: Bounding boxes drawn into images: DrawBoundingBoxes.
- `color`: Colors of images: RGBToHSV, HSVToRGB, AdjustHue, AdjustSaturation, AdjustContrastv2.
- `crop_and_resize`: Boxes cut out of images and resized: CropAndResize and its gradients for images and boxes.
- `glimpse`: Windows of images at given places, with noise outside of the image: ExtractGlimpse, ExtractGlimpseV2.
- `non_max_suppression`: Greedy selection of boxes that overlap little: NonMaxSuppression in all versions,
  CombinedNonMaxSuppression.
- `patches`: Patches of images and volumes laid out as channels: ExtractImagePatches, ExtractVolumePatches.
- `projective_transform`: Projective transforms of images: ImageProjectiveTransformV2, ImageProjectiveTransformV3.
- `resize`: Resizing of images: ResizeBilinear, ResizeBicubic, ResizeArea, ResizeNearestNeighbor and their gradients.
- `scale_and_translate`: Resampling of images at any scale and offset, with a choice of kernels: ScaleAndTranslate.
"""

# The modules that register lowerings; the others are helpers.
LOWERINGS = (
  "bounding_boxes",
  "color",
  "crop_and_resize",
  "glimpse",
  "non_max_suppression",
  "patches",
  "projective_transform",
  "resize",
  "scale_and_translate",
)
