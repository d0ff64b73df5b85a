"""From values to the files of a checkpoint.

- `stored_tensor`: Values as tensors to store: which element type and shape they have, and in which parts they are
  written.
- `array_bytes`: Arrays as chunks of bytes in C order, with little memory beside the array.
- `part_sources`: Where the bytes of a stored tensor, or of one stored slice of it, come from when they are written.
- `bundle_writer`: Writer of checkpoints in format 2: an index table and data shards, `<prefix>.index` and
  `<prefix>.data-*-of-*`.
"""
