"""Messages above 2 GB, which TensorFlow writes as chunks into one file (`.cpb`).

- `merging`: puts the chunks together.
- `riegeli`: the file of records around the chunks.
- `highway_hash`: the checksums in that file; `compiled_highway_hash`: those of long chunks.
"""
